import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createInbox, createOutbox, type Sql } from '../../src/index.ts';
import type { DeadLetter } from '../../src/ports/store.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

const NAMES: readonly (readonly [what: string, name: string])[] = [
  ['quotes', `a"b'c`],
  ['a quote alone', '"'],
  ['spaces', ' a  b '],
  ['capitals', 'CamelCase'],
  ['a reserved word', 'select'],
  ['emoji', '📬😀'],
  ['SQL', `x"; DROP SCHEMA public CASCADE; --`],
  ['placeholders', 'a$1b$2 %s ?'],
  ['dollar quotes', '$$ $a$'],
  ['backslashes and line breaks', 'a\\n\n\tb'],
  ['dots and commas', 'a.b,c'],
  ['63 bytes', 'x'.repeat(63)],
  ['63 bytes in letters of several', `${'é'.repeat(31)}z`],
];

const letter: DeadLetter = {
  messageId: 'm9',
  dedupe: '09',
  reason: 'no',
  kind: 'rejected',
  attempts: 1,
  lane: 'l',
  position: undefined,
  type: undefined,
  key: 'k',
  time: undefined,
  headers: [],
  payload: new Uint8Array(),
};

describe.each([{ pipeline: true }, { pipeline: false }])('names of schema and tables, pipeline $pipeline', options => {
  let database: FreshDatabase;
  let pool: Pool;
  beforeAll(async () => {
    database = await freshDatabase();
    pool = database.pool({ ...options, max: 3 });
  });
  afterAll(() => database.drop());

  test.each(NAMES)('with %s', async (_, name) => {
    const short = [...name].slice(0, 20).join('');
    const tables = {
      inbox: name,
      consumers: `${short} c`,
      deadLetters: `${[...name].slice(0, 28).join('')} d`,
      positions: `${short} p`,
      lanes: `${short} l`,
      outbox: `${[...name].slice(0, 28).join('')} o`,
      relays: `${short} r`,
      effects: `${short} e`,
      attempts: `${short} a`,
      laneOwners: `${short} w`,
      migrations: `${short} m`,
    };
    const store = postgresStore(pool, { schema: name, tables });
    const inbox = createInbox({ name, store });
    const handle = (_: unknown, { sql }: { sql: Sql }) => sql`SELECT 1`;
    expect((await inbox.process({ id: 'm1', body: {} }, handle)).status).toBe('processed');
    expect((await inbox.process({ id: 'm1', body: {} }, handle)).status).toBe('duplicate');

    const bound = await store.open({ name: 'other', signature: 's' });
    const write = () => bound.transaction([], { budgetMs: 1_000, overlap: false }, unit => unit.deadLetter([letter]));
    await write();
    await write();
    expect(await bound.transaction([], { budgetMs: 1_000, overlap: false }, u => u.blockedKeys(['k', 'l']))).toEqual(
      new Set(['k']),
    );
    await store.positions.save('other', 'lane', '17');
    expect(await store.positions.load('other', 'lane')).toBe('17');
    const outbox = createOutbox({ store });
    await store.transaction(tx => outbox.add(tx, { topic: 't', key: 'k', payload: 1 }));
    const parts = await store.outbox.join('r', 60_000);
    const [row] = await store.outbox.read(parts, [], 10);
    expect(await store.outbox.refused(row!, 'no')).toBe(1);
    await store.outbox.park(row!);
    expect(await store.outbox.parked(10)).toMatchObject([{ seq: row!.seq, reason: 'no' }]);
    expect(await store.outbox.retry(row!.seq)).toBe(true);
    await store.outbox.moveBehind([row!]);
    await store.outbox.remove([row!]);
    await store.outbox.leave('r');
    expect(await store.outbox.backlog()).toMatchObject({ waiting: 0, parked: 0 });
    const counts = (await store.stats()).map(row => [row.consumer, row.processed, row.deadLetters]);
    expect(counts).toEqual(
      expect.arrayContaining([
        [name, 1, 0],
        ['other', 0, 1],
      ]),
    );

    // Exactly what was asked for is there, under exactly these names, and a second start finds it.
    const there = await pool.query(
      `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND relkind = 'r'`,
      [name],
    );
    expect(there.rows.map(row => row.relname).sort()).toEqual(Object.values(tables).sort());
    await postgresStore(pool, { schema: name, tables, migrate: 'check' }).open({ name: 'other', signature: 's' });
    expect((await pool.query("SELECT FROM pg_namespace WHERE nspname = 'public'")).rowCount).toBe(1);
  });

  test('the SQL for running by hand is quoted the same', async () => {
    const schema = `by hand "'; $1 😀`;
    const store = postgresStore(pool, { schema, migrate: 'check' });
    await pool.query(store.migrationSql());
    await store.open({ name: 'pay', signature: 's' });
    expect(await store.pendingMigrations()).toEqual([]);
  });
});

describe('names that cannot be are refused before anything is sent', () => {
  const pool = { connect: () => Promise.reject(new Error('it was asked')) };
  const x64 = 'x'.repeat(64);

  test.each([
    ['64 bytes', { schema: x64 }, x64],
    ['64 bytes of emoji', { schema: '😀'.repeat(16) }, '😀'],
    ['a table of 64 bytes', { tables: { inbox: x64 } }, x64],
    ['nothing', { schema: '' }, '""'],
    ['a NUL', { tables: { positions: 'a\0b' } }, 'a\\u0000b'],
    ['two tables of one name', { tables: { inbox: 'a', consumers: 'a' } }, '"a"'],
    ['a table named like the view', { tables: { positions: 'inbox_readable' } }, 'inbox_readable'],
    ['a table named like an index', { tables: { positions: 'dead_letters_open' } }, 'dead_letters_open'],
  ])('%s', (_, options, named) => {
    const make = () => postgresStore(pool as never, options);
    expect(make).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
    expect(make).toThrow(named);
  });

  test('long names that begin alike get views and indexes of their own', () => {
    const long = (end: string) => `${'x'.repeat(62)}${end}`;
    const sql = postgresStore(pool as never, { tables: { inbox: long('a'), deadLetters: long('b') } }).migrationSql();
    const names = [...sql.matchAll(/(?:INDEX IF NOT EXISTS|VIEW "nevertwice"\.) ?"(x[^"]*)"/g)].map(match => match[1]!);
    expect(names).toHaveLength(3);
    expect(new Set(names).size).toBe(3);
    for (const name of names) expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63);
  });
});
