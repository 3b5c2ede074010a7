import type { EffectRecord, EffectRows } from '../../ports/effects.ts';
import type { Store } from '../../ports/store.ts';
import { parseCommand } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Command } from '../command-line.ts';
import { EXIT } from '../exit-codes.ts';
import { number } from '../progress.ts';
import { assertThere, withStore } from '../store-of.ts';
import { STORE_FORMS } from '../store-url.ts';
import { table } from '../table.ts';

const HELP = `nevertwice effects [list | decide] [<module>] [--store URL] [options]

The calls that handlers have made with context.effect. One that is unknown was begun, and nobody knows what became of it:
with onUnknown: 'hold' its message waits as a dead letter until somebody has looked at the other side and says so here.

  nevertwice effects --store postgres://app@db.example/shop --state unknown
  nevertwice effects decide --store postgres://app@db.example/shop --key nt1_… --result '{"charge":"ch_1"}'
  nevertwice effects decide wallet.ts --key nt1_… --not-done

  list             what is in the ledger (the default)
  decide           says what became of an unknown call; then send its dead letter through again: nevertwice dead retry
  <module>         take the store of the consumer that this module exports
  --store URL      the ledger: ${STORE_FORMS}
  --consumer NAME  only of this consumer
  --state STATE    only calling, unknown, done or not-done
  --key KEY        which call: its key in the list
  --result JSON    it happened, and this is what it returned; null for nothing
  --not-done       it did not happen: the next try calls
  --json           [{ key, consumer, messageId, name, state, calls, at }]

Exit codes: 0 done; 1 a mistake in the command line or the module, or that call is not unknown; 2 the store cannot be reached, or
has no tables that fit.`;

const text = { type: 'string' } as const;
const OPTIONS = {
  store: text,
  consumer: text,
  state: text,
  key: text,
  result: text,
  'not-done': { type: 'boolean' },
  json: { type: 'boolean' },
} as const;
const STATES: readonly EffectRecord['state'][] = ['calling', 'unknown', 'done', 'not-done'];

export const command: Command = {
  help: HELP,
  async run(args, output) {
    const [first] = args;
    const action = first === 'list' || first === 'decide' ? first : undefined;
    const { values, positionals } = parseCommand('effects', action === undefined ? args : args.slice(1), OPTIONS, 1);
    const { consumer, state, key } = values;
    if (state !== undefined && !STATES.includes(state as never))
      throw new CommandError(`--state must be one of ${STATES.join(', ')}`);
    const decision = action === 'decide' ? decisionOf(values) : undefined;
    assertThere(values.store);
    return withStore('effects', positionals[0], values.store, async store => {
      const ledger = ledgerOf(store);
      if (decision !== undefined && !(await ledger.decide(key!, decision)))
        throw new CommandError(
          `the call ${key} is not unknown in ${store.name}; nevertwice effects lists what is there`,
        );
      const filter = {
        ...(consumer === undefined ? {} : { consumer }),
        ...(state === undefined ? {} : { state: state as EffectRecord['state'] }),
      };
      const records = (await ledger.list(filter)).filter(one => decision === undefined || one.key === key);
      output.result(values.json === true ? JSON.stringify(records) : inWords(records));
      return EXIT.done;
    });
  },
};

function decisionOf(values: {
  readonly key?: string | undefined;
  readonly result?: string | undefined;
  readonly 'not-done'?: boolean | undefined;
}): Parameters<EffectRows['decide']>[1] {
  const { key, result } = values;
  if (key === undefined || (result === undefined) === (values['not-done'] !== true))
    throw new CommandError('effects decide needs --key, and either --result JSON or --not-done');
  if (result === undefined) return 'not-done';
  try {
    return { result: JSON.stringify(JSON.parse(result)) };
  } catch (cause) {
    throw new CommandError('--result is not JSON; a text needs quotes of its own', { cause });
  }
}

function ledgerOf(store: Store): EffectRows {
  if (store.promise === 'exactly-once' && store.effects !== undefined) return store.effects;
  throw new CommandError(
    `${store.name} keeps no ledger of effects; give --store URL of the one that the consumer's effects name`,
  );
}

function inWords(records: readonly EffectRecord[]): string {
  if (records.length === 0) return 'no such calls';
  const rows = records.map(one => [
    one.key,
    one.consumer,
    one.name,
    one.messageId,
    one.state,
    number(one.calls),
    one.at.toISOString(),
  ]);
  return table(['key', 'consumer', 'step', 'message', 'state', 'calls', 'first'], rows, new Set([5]));
}
