import { randomBytes } from 'node:crypto';
import { Client, type Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createInbox, isNevertwiceError } from '../../src/index.ts';
import { type PostgresStoreOptions, postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

let database: FreshDatabase;
let pool: Pool;
beforeEach(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 4 });
});
afterEach(() => database.drop());

const history = async () =>
  (await pool.query('SELECT version, needs FROM nevertwice.migrations ORDER BY version')).rows;
/** Everything in the schema, for comparing before and after. */
const objects = async () =>
  (
    await pool.query(
      `SELECT c.oid, c.relname, c.relkind, c.relfilenode FROM pg_class c
       JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'nevertwice' ORDER BY 1`,
    )
  ).rows;
const process = (store: ReturnType<typeof postgresStore>, id: string) =>
  createInbox({ name: 'pay', store }).process({ id, body: {} }, (_, { sql }) => sql`SELECT 1`);
const failure = async (work: Promise<unknown>) => {
  const error = await work.then(
    () => undefined,
    (e: unknown) => e,
  );
  if (!isNevertwiceError(error)) throw new Error(`wanted an error of this library, got ${error}`);
  expect(error.message).not.toContain('\n');
  return error;
};

describe('migrations', () => {
  test('a fresh database is made ready by the first start, and nothing happens at the second', async () => {
    const store = postgresStore(pool);
    expect(await store.pendingMigrations()).toEqual([1, 2, 3]);
    expect((await process(store, 'm1')).status).toBe('processed');
    expect(await history()).toEqual([
      { version: 1, needs: 1 },
      { version: 2, needs: 1 },
      { version: 3, needs: 1 },
    ]);
    expect(await store.pendingMigrations()).toEqual([]);
    const before = await objects();
    expect(await store.migrate()).toEqual([]);
    expect((await process(postgresStore(pool), 'm1')).status).toBe('duplicate');
    expect(await objects()).toEqual(before);
  });

  test.each(['read committed', 'repeatable read', 'serializable'] as const)(
    'eight processes that start at once at %s make it once',
    async isolation => {
      const stores = Array.from({ length: 8 }, () => postgresStore(database.pool({ max: 1 }), { isolation }));
      const applied = await Promise.all(stores.map(store => store.migrate()));
      expect(applied.flat()).toEqual([1, 2, 3]);
      expect(await history()).toEqual([
        { version: 1, needs: 1 },
        { version: 2, needs: 1 },
        { version: 3, needs: 1 },
      ]);
    },
  );

  test('eight consumers of one name that start at once are one consumer', async () => {
    const options: PostgresStoreOptions = { isolation: 'serializable' };
    const stores = Array.from({ length: 8 }, () => postgresStore(database.pool({ max: 1 }), options));
    await Promise.all(stores.map(store => store.open({ name: 'pay', signature: 's' })));
    expect((await pool.query('SELECT name FROM nevertwice.consumers')).rows).toEqual([{ name: 'pay' }]);
  });

  test("with migrate: 'check' a database that is not ready is refused, and nothing is made", async () => {
    const error = await failure(process(postgresStore(pool, { migrate: 'check' }), 'm1'));
    expect(error).toMatchObject({ code: 'NT_SCHEMA', message: expect.stringContaining('nevertwice migrate') });
    expect(await objects()).toEqual([]);
  });

  test("the SQL run by hand is what a start would make: 'check' passes and adds nothing", async () => {
    const store = postgresStore(pool, { migrate: 'check' });
    await pool.query(store.migrationSql());
    const before = await objects();
    expect((await process(store, 'm1')).status).toBe('processed');
    expect(await store.pendingMigrations()).toEqual([]);
    expect(await objects()).toEqual(before);
    await pool.query(store.migrationSql());
    expect(await objects()).toEqual(before);
    expect((await process(store, 'm1')).status).toBe('duplicate');
  });
});

describe('a schema that a newer version has changed', () => {
  // What the next version may do while this one still runs: add, never take away.
  async function nextVersion(needs: number): Promise<void> {
    await pool.query('ALTER TABLE nevertwice.inbox ADD COLUMN result jsonb');
    await pool.query('ALTER TABLE nevertwice.dead_letters ADD COLUMN redriven_at timestamptz');
    await pool.query('INSERT INTO nevertwice.migrations (version, name, needs) VALUES (4, $1, $2)', ['results', needs]);
  }

  test('is used by a running and by a starting one, side by side with the newer', async () => {
    const running = postgresStore(pool);
    await process(running, 'm1');
    await nextVersion(1);
    const newer = (id: string) =>
      pool.query(
        `INSERT INTO nevertwice.inbox (consumer, key, result) SELECT id, $1, '{}' FROM nevertwice.consumers WHERE name = 'pay'`,
        [Buffer.concat([Buffer.of(2), Buffer.from(id)])],
      );
    await newer('m2');
    for (const store of [running, postgresStore(pool), postgresStore(pool, { migrate: 'check' })]) {
      expect((await process(store, 'm1')).status).toBe('duplicate');
      expect((await process(store, 'm2')).status).toBe('duplicate');
      expect(await store.migrate()).toEqual([]);
    }
    expect((await process(postgresStore(pool), 'm3')).status).toBe('processed');
    await expect(newer('m3')).rejects.toMatchObject({ code: '23505' });
    expect(await history()).toHaveLength(4);
  });

  test.each(['auto', 'check'] as const)(
    'is refused by %s when it says that this version cannot use it',
    async migrate => {
      await process(postgresStore(pool), 'm1');
      await nextVersion(4);
      const error = await failure(process(postgresStore(pool, { migrate }), 'm2'));
      expect(error).toMatchObject({ code: 'NT_SCHEMA', message: expect.stringContaining('upgrade the package') });
    },
  );
});

describe('a role that may not do everything', () => {
  let role: string;
  let asRole: Pool;
  beforeEach(async () => {
    role = `nevertwice_role_${randomBytes(6).toString('hex')}`;
    await pool.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
    const url = new URL(database.url);
    [url.username, url.password] = [role, 'secret'];
    asRole = database.pool({ connectionString: url.href, max: 2 });
  });
  afterEach(async () => {
    await asRole.end();
    await pool.query(`DROP OWNED BY ${role}`);
    await pool.query(`DROP ROLE ${role}`);
  });

  test('cannot create: one line with the code and what to do', async () => {
    const error = await failure(process(postgresStore(asRole), 'm1'));
    expect(error).toMatchObject({ code: 'NT_SCHEMA', cause: { code: '42501' } });
    expect(error.message).toMatch(/may not create the tables.*nevertwice migrate.*42501/);
  });

  test('may create tables in a schema that an owner has made for it, though no schemas', async () => {
    await pool.query(`CREATE SCHEMA nevertwice`);
    await pool.query(`GRANT USAGE, CREATE ON SCHEMA nevertwice TO ${role}`);
    expect((await process(postgresStore(asRole), 'm1')).status).toBe('processed');
  });

  test('runs on what an owner has made', async () => {
    await postgresStore(pool).migrate();
    await pool.query(`GRANT USAGE ON SCHEMA nevertwice TO ${role}`);
    await pool.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA nevertwice TO ${role}`);
    expect((await process(postgresStore(asRole), 'm1')).status).toBe('processed');
  });

  test.each([
    ['see the schema', []],
    ['read its tables', ['GRANT USAGE ON SCHEMA nevertwice TO']],
  ])('may not even %s: one line, not the server’s own words', async (_, grants) => {
    await postgresStore(pool).migrate();
    for (const grant of grants) await pool.query(`${grant} ${role}`);
    const error = await failure(process(postgresStore(asRole), 'm1'));
    expect(error).toMatchObject({ code: 'NT_SCHEMA', cause: { code: '42501' } });
    expect(error.message).toMatch(/may not read the tables.*42501/);
  });
});

test('a migration whose process dies leaves no lock behind', async () => {
  const client = new Client({ connectionString: database.url });
  client.on('error', () => undefined);
  await client.connect();
  await client.query('BEGIN');
  await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 7))', ['nevertwice nevertwice']);
  const store = postgresStore(pool);
  const migrating = store.migrate();
  client.connection.stream.destroy();
  expect(await migrating).toEqual([1, 2, 3]);
});
