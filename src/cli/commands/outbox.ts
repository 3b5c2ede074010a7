import type { Backlog, OutboxStore, ParkedRow } from '../../ports/outbox.ts';
import type { Store } from '../../ports/store.ts';
import { parseCommand } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Command } from '../command-line.ts';
import { EXIT } from '../exit-codes.ts';
import { number } from '../progress.ts';
import { assertThere, withStore } from '../store-of.ts';
import { STORE_FORMS } from '../store-url.ts';
import { table } from '../table.ts';

const HELP = `nevertwice outbox [list | retry | discard] [<module>] [--store URL] [--seq N] [--json]

What waits in the outbox of a store, and what is parked: messages that the relay's destination has refused too often. All of
a parked message's key waits behind it, in order, until somebody decides.

  nevertwice outbox --store postgres://app@db.example/shop
  nevertwice outbox retry --store postgres://app@db.example/shop --seq 4711
  nevertwice outbox discard wallet.ts --seq 4711

  list           what waits and what is parked (the default)
  retry          gives a parked message, and those behind it, back to the relays
  discard        deletes a parked message for good, and gives those behind it back
  <module>       take the store of the consumer that this module exports
  --store URL    ${STORE_FORMS}
  --seq N        which parked message: its number in the list
  --json         { waiting, oldest, parked, behind, messages: [{ seq, id, topic, key, attempts, reason, parkedAt, behind }] }

At most 1,000 parked messages are listed, the oldest first. It counts all rows: a question for a person.

Exit codes: 0 done; 1 a mistake in the command line or the module, or nothing is parked under that number; 2 the store cannot
be reached, or has no tables that fit.`;

const OPTIONS = { store: { type: 'string' }, seq: { type: 'string' }, json: { type: 'boolean' } } as const;
const MOST = 1_000;

export const command: Command = {
  help: HELP,
  async run(args, output) {
    const [first] = args;
    const action = first === 'list' || first === 'retry' || first === 'discard' ? first : undefined;
    const { values, positionals } = parseCommand('outbox', action === undefined ? args : args.slice(1), OPTIONS, 1);
    const seq = seqOf(action ?? 'list', values.seq);
    assertThere(values.store);
    return withStore('outbox', positionals[0], values.store, async store => {
      const outbox = outboxOf(store);
      if (seq !== undefined) {
        const done = action === 'retry' ? await outbox.retry(seq) : await outbox.discard(seq);
        if (!done) throw new CommandError(`nothing is parked under the number ${seq} in ${store.name}`);
      }
      const [backlog, parked] = [await outbox.backlog(), await outbox.parked(MOST)];
      output.result(values.json === true ? asJson(backlog, parked) : inWords(backlog, parked));
      return EXIT.done;
    });
  },
};

function seqOf(action: 'list' | 'retry' | 'discard', seq: string | undefined): bigint | undefined {
  if (action === 'list') {
    if (seq !== undefined) throw new CommandError('--seq belongs to outbox retry and outbox discard');
    return undefined;
  }
  if (seq === undefined || !/^\d{1,18}$/.test(seq)) {
    throw new CommandError(
      `outbox ${action} needs --seq and the number of a parked message; nevertwice outbox lists them`,
    );
  }
  return BigInt(seq);
}

function outboxOf(store: Store): OutboxStore<any> {
  if (store.promise === 'exactly-once') return store.outbox;
  throw new CommandError(`${store.name} is a lease store and has no outbox`);
}

function inWords(backlog: Backlog, parked: readonly ParkedRow[]): string {
  const { waiting, oldest, behind } = backlog;
  const since = oldest === undefined ? '' : ` since ${oldest.toISOString()}`;
  const line = `waiting ${number(waiting)}${since} · parked ${number(backlog.parked)} · behind them ${number(behind)}`;
  if (parked.length === 0) return line;
  const rows = parked.map(one => [
    String(one.seq),
    one.topic,
    one.key ?? '-',
    one.id,
    number(one.attempts),
    number(one.behind),
    one.reason,
  ]);
  return `${line}\n${table(['seq', 'topic', 'key', 'id', 'tries', 'behind', 'reason'], rows, new Set([0, 4, 5]))}`;
}

function asJson(backlog: Backlog, parked: readonly ParkedRow[]): string {
  // The number as text: it may be beyond what a JSON number holds.
  const messages = parked.map(one => ({ ...one, seq: String(one.seq), key: one.key ?? null }));
  return JSON.stringify({ ...backlog, oldest: backlog.oldest ?? null, messages });
}
