import type { EffectRows } from '../../ports/effects.ts';
import { effectRows } from '../sql/effects.ts';
import { NOW } from './claims.ts';
import type { Connection } from './connection.ts';
import { own } from './errors.ts';
import type { Names } from './options.ts';
import type { TransactionRunner } from './runner.ts';

/** The ledger in this file; for handlers whose transactions are on another one. */
export function effectsOn(
  store: string,
  names: Names,
  runner: TransactionRunner,
  ready: () => Promise<Connection>,
): EffectRows {
  const value = (n: number) => `?${n}`;
  return effectRows(
    {
      table: names.quoted.effects,
      now: NOW,
      text: value,
      whole: value,
      async run(text, values) {
        const connection = await ready();
        return runner.run(connection, { overlap: false }, async () =>
          own(store, () =>
            connection.all<Record<string, unknown>>(
              text,
              ...values.map(one => (typeof one === 'number' ? BigInt(one) : one)),
            ),
          ),
        );
      },
    },
    { never: `${store} lets one transaction write at a time, and that is the handler's` },
  );
}
