import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createInbox, type TransactionContext } from '../../src/index.ts';
import { type PostgresStoreOptions, postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

type Context = TransactionContext<import('pg').PoolClient>;

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.drop());

let consumers = 0;
/** One message through a pool of one connection, so that what is left on it shows. */
async function handle(pool: Pool, work: (context: Context) => Promise<void>, options: PostgresStoreOptions = {}) {
  const inbox = createInbox({ name: `pay ${consumers++}`, store: postgresStore(pool, options), timeoutMs: 20_000 });
  return inbox.process({ id: 'm1', body: {} }, async (_, context) => {
    await context.sql`SELECT 1`;
    await work(context as unknown as Context);
  });
}

const SETTINGS = ['lock_timeout', 'idle_in_transaction_session_timeout', 'statement_timeout'] as const;

async function settings(client: { query(text: string): Promise<{ rows: any[] }> }): Promise<readonly string[]> {
  const { rows } = await client.query(
    `SELECT ${SETTINGS.map(name => `current_setting('${name}') AS ${name}`).join(', ')}`,
  );
  return SETTINGS.map(name => rows[0][name]);
}

describe.each([{ pipeline: true }, { pipeline: false }])(
  'settings of the session, pipeline $pipeline',
  ({ pipeline }) => {
    const one = (options = {}) => database.pool({ pipeline, max: 1, ...options });

    test('the claim’s bound on waiting is gone before the handler runs, and nothing is left after the commit', async () => {
      const pool = one();
      let inside: readonly string[] = [];
      await handle(pool, async ({ tx }) => {
        inside = await settings(tx);
      });
      // The handler’s time and ten seconds: a process that vanished must not keep its claims for ever.
      expect(inside).toEqual(['0', '30s', '0']);
      expect(await settings(pool)).toEqual(['0', '0', '0']);
    });

    test('the same without a claim, as a consumer by position has it: a process that vanished must not keep its rows', async () => {
      const pool = one();
      const inbox = await postgresStore(pool).open({ name: 'unclaimed', signature: 's' });
      let inside: readonly string[] = [];
      await inbox.transaction([], { budgetMs: 20_000, overlap: false }, async ({ tx }) => {
        inside = await settings(tx);
      });
      expect(inside).toEqual(['0', '30s', '0']);
      expect(await settings(pool)).toEqual(['0', '0', '0']);
    });

    test('what the session has set itself counts, in the handler and afterwards', async () => {
      const pool = one({
        options: '-c lock_timeout=7000 -c idle_in_transaction_session_timeout=90000 -c statement_timeout=60000',
      });
      let inside: readonly string[] = [];
      await handle(pool, async ({ tx }) => {
        inside = await settings(tx);
      });
      expect(inside).toEqual(['7s', '90s', '1min']);
      expect(await settings(pool)).toEqual(['7s', '90s', '1min']);
    });

    test('what a handler sets for the transaction ends with it; what it sets for the session stays', async () => {
      const pool = one();
      await handle(pool, async ({ tx }) => {
        await tx.query("SET LOCAL lock_timeout = '3s'");
        await tx.query("SET statement_timeout = '50s'");
        expect(await settings(tx)).toEqual(['3s', '30s', '50s']);
      });
      expect(await settings(pool)).toEqual(['0', '0', '50s']);
    });

    test('nothing is left after a rollback either', async () => {
      const pool = one();
      const failing = handle(pool, async ({ tx }) => {
        await tx.query("SET LOCAL lock_timeout = '3s'");
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      expect(await settings(pool)).toEqual(['0', '0', '0']);
    });

    test('within: the caller’s own settings stand, before, inside and after', async () => {
      const pool = one();
      const store = postgresStore(database.pool({ pipeline, max: 1 }));
      const inbox = createInbox({ name: `pay ${consumers++}`, store });
      await inbox.process({ id: 'm0', body: {} }, (_, { sql }) => sql`SELECT 1`);
      const client = await pool.connect();
      await client.query('BEGIN');
      await client.query("SET LOCAL lock_timeout = '4s'");
      await client.query("SET LOCAL idle_in_transaction_session_timeout = '8s'");
      let inside: readonly string[] = [];
      await inbox.within(client).process({ id: 'm1', body: {} }, async (_, { tx }) => {
        inside = await settings(tx);
      });
      expect(inside).toEqual(['4s', '8s', '0']);
      expect(await settings(client)).toEqual(['4s', '8s', '0']);
      await client.query('COMMIT');
      expect(await settings(client)).toEqual(['0', '0', '0']);
      client.release();
    });

    test.each(['read committed', 'repeatable read', 'serializable'] as const)(
      'the handler runs at %s',
      async isolation => {
        const pool = one();
        let inside = '';
        await handle(
          pool,
          async ({ sql }) => {
            inside = (await sql<{ transaction_isolation: string }>`SHOW transaction_isolation`)[0]!
              .transaction_isolation;
          },
          { isolation },
        );
        expect(inside).toBe(isolation);
      },
    );

    test('a claim that runs into the session’s own statement_timeout is busy and no failure', async () => {
      const held = Promise.withResolvers<void>();
      const claimed = Promise.withResolvers<void>();
      const name = `pay ${consumers++}`;
      const owner = createInbox({ name, store: postgresStore(database.pool({ pipeline, max: 1 })) });
      const first = owner.process({ id: 'm1', body: {} }, async (_, { sql }) => {
        await sql`SELECT 1`;
        claimed.resolve();
        await held.promise;
      });
      await claimed.promise;
      const impatient = database.pool({ pipeline, max: 1, options: '-c statement_timeout=30' });
      const other = createInbox({
        name,
        store: postgresStore(impatient, { lockTimeoutMs: 5_000, migrate: 'check' }),
        busyWaitMs: 100,
      });
      await expect(other.process({ id: 'm1', body: {} }, (_, { sql }) => sql`SELECT 1`)).rejects.toMatchObject({
        code: 'NT_BUSY',
      });
      held.resolve();
      expect((await first).status).toBe('processed');
      expect((await other.process({ id: 'm1', body: {} }, () => undefined)).status).toBe('duplicate');
    });
  },
);
