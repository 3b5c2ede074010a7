import type { LaneRow, LaneRows } from '../../ports/lanes.ts';
import type { Store } from '../../ports/store.ts';
import { parseCommand } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Command } from '../command-line.ts';
import { EXIT } from '../exit-codes.ts';
import type { Output } from '../output.ts';
import { assertThere, withStore } from '../store-of.ts';
import { STORE_FORMS } from '../store-url.ts';
import { table } from '../table.ts';

const HELP = `nevertwice positions [list | accept | reset] [<module>] [--store URL] [--consumer NAME] [--lane LANE] [--to PLACE] [--json]

Where consumers that deduplicate by position stand, and the answer to a lane that has stopped with a question.

  nevertwice positions --store postgres://app@db.example/shop
  nevertwice positions accept consumer.ts --lane payments/3
  nevertwice positions reset consumer.ts --lane payments/3 --to earliest

A lane stops with NT_LOG_CHANGED when its log is not the one that the position was kept for (a topic made again, a log
that lost its end, records gone unread), and with NT_OFFSET_RESET when somebody has set the group's offset. Going on by
itself could drop new messages as old ones, or do old ones again. It waits, other lanes go on, and it obeys within ten
seconds of the answer; so does a lane that is at work.

  list           every lane with its position (the default)
  accept         what Kafka has now is right: begin at the group's offset, or at the first record when it has none
  reset          begin at the place that --to names
  <module>       take the consumer that this module exports, and its store
  --store URL    ${STORE_FORMS}
  --consumer     whose lanes; not needed with a module, or when only one consumer keeps positions
  --lane         which lane: topic/partition; without it all lanes of the consumer
  --to           earliest, latest, position (where the consumer stands), or an offset
  --json         an array of { consumer, lane, position, epoch, log, mark, beginAt }

What is handled again after an answer is done again: by position nobody knows the messages, and with dedupe: 'both' the
ids still do.

Exit codes: 0 done; 1 a mistake in the command line or the module, or no such lane; 2 the store cannot be reached, or has
no tables that fit.`;

const OPTIONS = {
  store: { type: 'string' },
  consumer: { type: 'string' },
  lane: { type: 'string' },
  to: { type: 'string' },
  json: { type: 'boolean' },
} as const;

export const command: Command = {
  help: HELP,
  async run(args, output) {
    const [first] = args;
    const action = first === 'list' || first === 'accept' || first === 'reset' ? first : undefined;
    const { values, positionals } = parseCommand('positions', action === undefined ? args : args.slice(1), OPTIONS, 1);
    const place = placeOf(action ?? 'list', values.to);
    assertThere(values.store);
    return withStore('positions', positionals[0], values.store, async (store, owner) => {
      const lanes = lanesOf(store);
      const consumer = values.consumer ?? owner;
      const chosen = await choose(store, lanes, consumer, values.lane);
      if (place !== undefined) {
        for (const { consumer: name, row } of whoseAlone(chosen, consumer)) await lanes.order(name, row.lane, place);
      }
      show(output, store.name, await choose(store, lanes, consumer, values.lane), values.json === true, place);
      return EXIT.done;
    });
  },
};

/** What is written into the row; undefined for a mere look. */
function placeOf(action: 'list' | 'accept' | 'reset', to: string | undefined): string | undefined {
  if (action !== 'reset' && to !== undefined) throw new CommandError(`--to belongs to positions reset`);
  if (action === 'list') return undefined;
  if (action === 'accept') return 'group';
  if (to !== undefined && (/^(?:earliest|latest|position)$/.test(to) || isOffset(to))) return to;
  throw new CommandError('reset needs --to earliest, latest, position, or an offset');
}

const isOffset = (text: string) => /^\d{1,19}$/.test(text) && BigInt(text) < 2n ** 63n;

function lanesOf(store: Store): LaneRows {
  if (store.promise === 'exactly-once') return store.lanes;
  throw new CommandError(`${store.name} is a lease store and keeps no positions`);
}

interface Chosen {
  readonly consumer: string;
  readonly row: LaneRow;
}

async function choose(
  store: Store,
  lanes: LaneRows,
  consumer: string | undefined,
  lane: string | undefined,
): Promise<readonly Chosen[]> {
  const names = consumer === undefined ? (await store.stats()).map(counts => counts.consumer) : [consumer];
  const chosen: Chosen[] = [];
  for (const name of names) for (const row of await lanes.list(name)) chosen.push({ consumer: name, row });
  const found = lane === undefined ? chosen : chosen.filter(({ row }) => row.lane === lane);
  if (lane !== undefined && found.length === 0) {
    throw new CommandError(
      `${consumer ?? 'no consumer'} has ${consumer === undefined ? 'a' : 'no'} lane ${JSON.stringify(lane)} here; see nevertwice positions list`,
    );
  }
  return found;
}

/** An answer goes to one consumer. */
function whoseAlone(chosen: readonly Chosen[], named: string | undefined): readonly Chosen[] {
  const names = [...new Set(chosen.map(({ consumer }) => consumer))];
  if (names.length > 1)
    throw new CommandError(`several consumers have such lanes: ${names.join(', ')}; give --consumer`);
  if (chosen.length === 0) {
    throw new CommandError(
      `${named ?? 'no consumer'} keeps ${named === undefined ? 'positions' : 'no positions'} here yet`,
    );
  }
  return chosen;
}

function show(
  output: Output,
  store: string,
  chosen: readonly Chosen[],
  json: boolean,
  ordered: string | undefined,
): void {
  if (json) output.result(JSON.stringify(chosen.map(asJson)));
  else if (chosen.length === 0) output.result(`${store}: no consumer keeps positions here`);
  else {
    output.result(
      table(
        ['consumer', 'lane', 'position', 'epoch', 'begins at'],
        chosen.map(({ consumer, row }) => [
          consumer,
          row.lane,
          row.position === undefined ? '-' : String(row.position),
          String(row.epoch),
          row.beginAt ?? '-',
        ]),
        new Set([2, 3]),
      ),
    );
    if (ordered !== undefined) output.note('its owner begins there within ten seconds, or at its next start');
  }
}

function asJson({ consumer, row }: Chosen): object {
  const { lane, position, epoch, log, mark, beginAt } = row;
  return {
    consumer,
    lane,
    // As text: an offset may be beyond what a JSON number holds.
    position: position === undefined ? null : String(position),
    epoch: String(epoch),
    log: log ?? null,
    mark: mark ?? null,
    beginAt: beginAt ?? null,
  };
}
