import { setTimeout } from 'node:timers/promises';
import { backoffMs } from '../../core/backoff.ts';
import { classifyFailure } from '../../core/failures.ts';
import type { EffectRows } from '../../ports/effects.ts';
import { effectRows } from '../sql/effects.ts';
import { ownError } from './clients/own-statement.ts';
import type { Driver } from './driver.ts';
import type { Tables } from './tables.ts';

const TRIES = 20;

/** The ledger, beside the handlers' transactions: on a connection of its own where the client can open one. */
export function effectsOn<Tx>(driver: Driver<Tx>, t: Tables, ready: () => Promise<void>): EffectRows {
  const ask = driver.aside === undefined ? driver.query.bind(driver) : driver.aside.bind(driver);
  const dialect = {
    table: t.quoted.effects,
    now: '(extract(epoch FROM clock_timestamp()) * 1000)::bigint',
    text: (n: number) => `$${n}::text`,
    whole: (n: number) => `$${n}::bigint`,
    async run(text: string, values: readonly (string | number | null)[]) {
      await ready();
      // A session that is set to serializable loses races here, too; each of these statements stands alone.
      for (let races = 1; ; races++) {
        try {
          return await ask({ name: '', text, values: values.map(value => (value === null ? null : String(value))) });
        } catch (error) {
          if (classifyFailure(error) !== 'transient' || races === TRIES) throw ownError(error);
          await setTimeout(backoffMs(races, { minMs: 5, maxMs: 200 }, Math.random()));
        }
      }
    },
  };
  return effectRows(dialect, beside(driver));
}

function beside({ aside, connections, name }: Driver<unknown>): EffectRows['beside'] {
  if (aside !== undefined) return 'apart';
  if (connections !== 1) return 'pool';
  return { never: `${name} has one connection, which the handler's transaction holds` };
}
