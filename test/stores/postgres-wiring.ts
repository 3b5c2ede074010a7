import type { PoolClient } from 'pg';
import { afterAll, beforeAll, test } from 'vitest';
import { storeSuite } from '../../src/conformance/index.ts';
import { type PostgresStoreOptions, postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

/** The store suite on `pg` pools, which all share one database. */
export function poolSuite(
  name: string,
  pipeline: boolean,
  isolation: NonNullable<PostgresStoreOptions['isolation']>,
): void {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());

  storeSuite<PoolClient>({
    test,
    name,
    create: async () => {
      const pools = [database.pool({ pipeline, max: 4 })];
      const another = () => pools[pools.push(database.pool({ pipeline, max: 4 })) - 1]!;
      return {
        store: postgresStore(pools[0]!, { isolation }),
        secondStore: () => postgresStore(another(), { isolation }),
        useHandle: tx => tx.query('SELECT 1'),
        callersTransaction: async work => {
          const client = await another().connect();
          try {
            await client.query(`BEGIN ISOLATION LEVEL ${isolation}`);
            const result = await work(client);
            await client.query('COMMIT');
            return result;
          } catch (error) {
            await client.query('ROLLBACK');
            throw error;
          } finally {
            client.release();
          }
        },
        close: async () => {
          await Promise.all(pools.map(pool => pool.end()));
        },
      };
    },
  });
}
