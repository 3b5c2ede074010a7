import pg, { type Pool, type PoolClient } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox, type Inbox, type TransactionContext } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { type PostgresStoreHandle, postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';

type Store = PostgresStoreHandle<PoolClient>;
type Context = TransactionContext<PoolClient>;

const MAX = 2;

// `pg` says it once a process, so this file listens from its beginning to its end.
const deprecations: string[] = [];
process.on('warning', warning => {
  if (warning.name === 'DeprecationWarning') deprecations.push(warning.message);
});

describe.each([{ pipeline: true }, { pipeline: false }])('pg, pipeline $pipeline', ({ pipeline }) => {
  let database: FreshDatabase;
  let admin: Pool;
  let pool: Pool;
  let store: Store;
  let inbox: Inbox<Store>;
  let n = 0;
  beforeAll(async () => {
    database = await freshDatabase();
    admin = database.pool({ max: 1 });
    pool = database.pool({ pipeline, max: MAX });
    store = postgresStore(pool);
    await admin.query('CREATE TABLE wallet (account text PRIMARY KEY, balance integer NOT NULL)');
    await admin.query('CREATE TABLE child (id text REFERENCES wallet DEFERRABLE INITIALLY DEFERRED)');
    await admin.query("INSERT INTO wallet VALUES ('a', 0)");
  });
  afterAll(() => database.drop());
  beforeEach(() => {
    inbox = createInbox({ name: `pay ${n++}`, store, timeoutMs: 200 });
  });

  const handle = (work: (context: Context) => unknown) =>
    inbox.process({ id: 'm1', body: {} }, async (_, context) => {
      await work(context as Context);
    });

  /** No transaction is left open, on no backend, and every client of the pool is back and works. */
  async function clean(): Promise<void> {
    await until('no backend of the pool is in a transaction', async () => {
      const { rows } = await admin.query(
        `SELECT count(*)::int AS n FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND (xact_start IS NOT NULL OR state LIKE 'idle in%')`,
      );
      return rows[0].n === 0;
    });
    expect([pool.totalCount - pool.idleCount, pool.waitingCount]).toEqual([0, 0]);
    const clients = await Promise.all(Array.from({ length: MAX }, () => pool.connect()));
    for (const client of clients) {
      expect((await client.query('SELECT now() = statement_timestamp() AS alone')).rows).toEqual([{ alone: true }]);
      expect(client.listenerCount('end')).toBeLessThanOrEqual(1);
      client.release();
    }
    expect(pool.totalCount).toBe(MAX);
  }

  test.each<[string, (context: Context) => unknown, object]>([
    ['throws', () => Promise.reject(new Error('no')), { message: 'no' }],
    ['fails in a statement', ({ tx }) => tx.query('SELECT * FROM no_such_table'), { code: '42P01' }],
    ['swallows a failed statement', ({ tx }) => tx.query('x').catch(() => undefined), { code: 'NT_TX_ABORTED' }],
    ['forgets to await a failing statement', ({ tx }) => void tx.query('x'), { code: 'NT_TX_ABORTED' }],
    ['forgets to await a refused statement', ({ tx }) => void tx.query('COMMIT'), { code: 'NT_TX_ABORTED' }],
    [
      'has failing and slow statements side by side',
      ({ tx }) => Promise.all([tx.query('x'), tx.query('SELECT pg_sleep(0.05)')]),
      { code: '42601' },
    ],
    ['sends COMMIT', ({ tx }) => tx.query('COMMIT'), { code: 'NT_TX_FORBIDDEN' }],
    ['fails only at the commit', ({ tx }) => tx.query("INSERT INTO child VALUES ('nobody')"), { code: '23503' }],
    ['overruns its time', () => new Promise(() => undefined), { code: 'NT_HANDLER_TIMEOUT' }],
    ['overruns its time in a statement', ({ tx }) => tx.query('SELECT pg_sleep(60)'), { code: 'NT_HANDLER_TIMEOUT' }],
    [
      'kills its own session',
      ({ tx }) => tx.query('SELECT pg_terminate_backend(pg_backend_pid())'),
      { code: 'NT_STORE_DOWN' },
    ],
  ])('a handler that %s leaves the pool as it was, and the message is fresh again', async (_, work, error) => {
    await expect(handle(work)).rejects.toMatchObject(error);
    await clean();
    expect((await handle(({ sql }) => sql`SELECT 1`)).status).toBe('processed');
    await clean();
  });

  test('a claim that meets a live owner gives its client back', async () => {
    const [claimed, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const first = createInbox({ name: `pay ${n}`, store, timeoutMs: 20_000 }).process(
      { id: 'm1', body: {} },
      async (_, c) => {
        await c.sql`SELECT 1`;
        claimed.resolve();
        await release.promise;
      },
    );
    await claimed.promise;
    const other = createInbox({ name: `pay ${n++}`, store, busyWaitMs: 50 });
    await expect(other.process({ id: 'm1', body: {} }, () => undefined)).rejects.toMatchObject({ code: 'NT_BUSY' });
    expect(pool.totalCount - pool.idleCount).toBe(1);
    release.resolve();
    await first;
    await clean();
  });

  test('statements that a handler sends side by side all succeed, in their order', async () => {
    const order: number[] = [];
    await handle(({ tx, sql }) =>
      Promise.all([
        ...[1, 2, 3].map(async n => order.push((await tx.query('SELECT $1::int AS n', [n])).rows[0].n)),
        sql`SELECT 4`.then(() => order.push(4)),
      ]),
    );
    expect(order).toEqual([1, 2, 3, 4]);
  });

  test('a hundred failures open no connection', async () => {
    const opened = new Set<unknown>();
    pool.on('connect', client => opened.add(client));
    for (let i = 0; i < 100; i++) await handle(() => Promise.reject(new Error('no'))).catch(() => undefined);
    expect(opened.size).toBe(0);
    expect(pool.totalCount).toBe(MAX);
  });

  test('prepared statements that a handler throws away cost the next message one try at most', async () => {
    await handle(({ tx }) => tx.query('DEALLOCATE ALL'));
    const consumer = createConsumer({
      name: `pay ${n++}`,
      store,
      retries: { attempts: 3, minMs: 1, maxMs: 1 },
      handle: (_, { sql }) => sql`SELECT 1`,
    });
    const messages = Array.from({ length: 8 }, (_, i) => ({ id: `m${i}`, body: {} }));
    const summary = await consumer.run({ source: memorySource(messages, { retryLater: false }) });
    expect(summary).toMatchObject({ processed: 8, deadLetters: 0 });
    await clean();
  });

  test('a table that changes under a prepared statement costs one try, however many connections have it', async () => {
    const read = ({ sql }: Pick<Context, 'sql'>) => sql`SELECT * FROM wallet WHERE account = ${'a'}`;
    const message = (id: string, work: (c: Pick<Context, 'sql'>) => Promise<unknown>) =>
      inbox.process({ id, body: {} }, async (_, context) => void (await work(context)));
    // On both connections at once, so that each has the statement prepared.
    const slowly = async (c: Pick<Context, 'sql'>) => [await read(c), await c.sql`SELECT pg_sleep(0.05)`];
    await Promise.all([message('x', slowly), message('y', slowly)]);
    await admin.query('ALTER TABLE wallet ADD COLUMN note text');
    await expect(message('z', read)).rejects.toMatchObject({ code: '0A000' });
    // The other connection still has the old plan, under a name that is no longer used.
    for (const id of ['z', 'z2', 'z3']) expect((await message(id, read)).status).toBe('processed');
    await admin.query('ALTER TABLE wallet DROP COLUMN note');
    await clean();
  });
});

describe('what the pool itself does', () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());

  test('a pool that nobody listens to does not end the process when the server cuts an idle connection', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 2 });
    const stores = Array.from({ length: 20 }, () => postgresStore(pool));
    // One listener, or Node warns of a leak at the eleventh store.
    expect(pool.listenerCount('error')).toBe(1);
    await stores[0]!.migrate();
    expect(pool.idleCount).toBeGreaterThan(0);
    const admin = database.pool({ max: 1 });
    await admin.query(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
    await until('the pool has noticed', () => pool.totalCount === 0);
    expect(await stores[1]!.migrate()).toEqual([]);
    await pool.end();
  });

  test('no connection in time: the error names the pool and what is in use; one that comes late goes back', async () => {
    const pool = database.pool({ max: 1 });
    const held = await pool.connect();
    const store = postgresStore(pool, { acquireTimeoutMs: 30 });
    const error = await store.ping().catch((e: unknown) => e);
    expect(error).toMatchObject({
      code: 'NT_STORE_DOWN',
      retryable: true,
      message: expect.stringContaining('no connection within 30 ms (pool 1, in use 1)'),
    });
    expect(pool.waitingCount).toBe(1);
    held.release();
    await until('the late client is back', () => pool.idleCount === 1 && pool.waitingCount === 0);
    await store.ping();
  });

  test('the pool’s own time limit is told the same way', async () => {
    const pool = database.pool({ max: 1, connectionTimeoutMillis: 1_000 });
    const held = await pool.connect();
    await expect(postgresStore(pool).ping()).rejects.toMatchObject({
      code: 'NT_STORE_DOWN',
      message: 'cannot connect to PostgreSQL (pool 1, in use 1)',
    });
    held.release();
  });

  test.each([
    ['a wrong password', { password: 'wrong' }, '28P01'],
    ['a database that is not there', { pathname: '/nobody' }, '3D000'],
    ['a port where nobody listens', { port: '1' }, 'ECONNREFUSED'],
  ])('%s is told in one line with its code and without the password', async (_, change, code) => {
    const url = Object.assign(new URL(database.url), change);
    const pool = database.pool({ connectionString: url.href });
    const error = (await postgresStore(pool)
      .ping()
      .catch((e: unknown) => e)) as Error;
    expect(error).toMatchObject({ code: 'NT_STORE_DOWN', message: `cannot connect to PostgreSQL (${code})` });
  });

  test('with prepare: false nothing is prepared on the server', async () => {
    const pool = database.pool({ max: 1 });
    const inbox = createInbox({ name: 'pay', store: postgresStore(pool, { prepare: false }) });
    for (const id of ['m1', 'm1', 'm2'])
      await inbox.process({ id, body: { n: 1 } }, (_, { sql }) => sql`SELECT ${1}::int`);
    expect((await pool.query('SELECT name FROM pg_prepared_statements')).rows).toEqual([]);
    const prepared = createInbox({ name: 'pay', store: postgresStore(pool) });
    await prepared.process({ id: 'm3', body: {} }, (_, { sql }) => sql`SELECT ${1}::int`);
    expect((await pool.query('SELECT name FROM pg_prepared_statements')).rows.length).toBeGreaterThan(0);
  });
});

test('nothing that was done here leans on what pg will take away', async () => {
  await new Promise(resolve => setImmediate(resolve));
  expect(deprecations).toEqual([]);
});
