import type { Attempts } from '../../ports/attempts.ts';
import { aloneOn } from './alone.ts';
import type { Driver } from './driver.ts';
import type { Tables } from './tables.ts';

/** Each is one statement, committed when it returns. */
export function attemptsOn<Tx>(driver: Driver<Tx>, t: Tables, ready: () => Promise<void>): Attempts {
  const run = aloneOn(driver, ready, 'the row of an attempt');
  const { attempts, laneOwners, consumers } = t.quoted;
  const id = `(SELECT id FROM ${consumers} WHERE name = $1)`;
  return {
    async enter(consumer, lane, owner) {
      const [row] = await run(
        `WITH b AS (SELECT owner FROM ${laneOwners} WHERE consumer = ${id} AND lane = $2)
INSERT INTO ${laneOwners} (consumer, lane, owner) SELECT id, $2, $3 FROM ${consumers} WHERE name = $1
ON CONFLICT (consumer, lane) DO UPDATE SET owner = excluded.owner, at = now() RETURNING (SELECT owner FROM b) AS before`,
        consumer,
        lane,
        owner,
      );
      return (row?.before ?? undefined) as string | undefined;
    },
    async leave(consumer, lane, owner) {
      await run(`DELETE FROM ${laneOwners} WHERE consumer = ${id} AND lane = $2 AND owner = $3`, consumer, lane, owner);
    },
    async begin(consumer, key) {
      const [row] = await run(
        `INSERT INTO ${attempts} AS a (consumer, key, tries) SELECT id, decode($2, 'hex'), 1 FROM ${consumers} WHERE name = $1
ON CONFLICT (consumer, key) DO UPDATE SET tries = a.tries + 1, at = now() RETURNING tries::text AS tries`,
        consumer,
        key,
      );
      return Number(row?.tries ?? 1);
    },
    async end(consumer, key) {
      await run(`DELETE FROM ${attempts} WHERE consumer = ${id} AND key = decode($2, 'hex')`, consumer, key);
    },
  };
}
