import type { Pool } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

let database: FreshDatabase;
let pool: Pool;
let schema: string;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 4 });
});
afterAll(() => database.drop());
let n = 0;
beforeEach(async () => {
  schema = `s${n++}`;
  await postgresStore(pool, { schema }).migrate();
});

const start = () => postgresStore(pool, { schema, migrate: 'check' }).open({ name: 'pay', signature: 's' });
const change = (sql: string) => pool.query(sql.replaceAll('$S', schema));

describe('C38, C39: a table that could not keep the promise is refused at the start, by name', () => {
  test.each([
    [
      'ids as text',
      "ALTER TABLE $S.inbox ALTER COLUMN key TYPE text USING encode(key, 'hex')",
      /inbox"?\.key is text, needed bytea/,
    ],
    ['ids as uuid', 'ALTER TABLE $S.inbox ALTER COLUMN key TYPE uuid USING gen_random_uuid()', /inbox"?\.key is uuid/],
    [
      'a wider consumer',
      'ALTER TABLE $S.inbox ALTER COLUMN consumer TYPE bigint',
      /inbox"?\.consumer is int8, needed int4/,
    ],
    [
      'a time without a zone',
      'ALTER TABLE $S.inbox ALTER COLUMN at TYPE timestamp',
      /inbox"?\.at is timestamp, needed/,
    ],
    ['no fingerprint', 'ALTER TABLE $S.inbox DROP COLUMN fp', /inbox"?\.fp is missing, needed bytea/],
    ['a renamed key', 'ALTER TABLE $S.inbox RENAME COLUMN key TO id', /inbox"?\.key is missing/],
    ['no table', 'DROP TABLE $S.inbox CASCADE', /inbox"? does not exist/],
    ['no dead letters', 'DROP TABLE $S.dead_letters', /dead_letters"? does not exist/],
    ['no positions', 'DROP TABLE $S.positions', /positions"? does not exist/],
    ['no consumers', 'DROP TABLE $S.consumers CASCADE', /consumers"? does not exist/],
  ])('%s', async (_, sql, message) => {
    await change(`DROP VIEW $S.inbox_readable; ${sql}`);
    const error = await start().catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'NT_SCHEMA', message: expect.stringMatching(message) });
    expect((error as Error).message).not.toContain('\n');
  });

  test.each([
    ['none', ''],
    ['one that is not unique', 'CREATE INDEX ON $S.inbox (consumer, key)'],
    ['one for some rows only', 'CREATE UNIQUE INDEX ON $S.inbox (consumer, key) WHERE consumer > 0'],
    ['one over more columns', 'CREATE UNIQUE INDEX ON $S.inbox (consumer, key, at)'],
    ['one over fewer', 'CREATE UNIQUE INDEX ON $S.inbox (key)'],
    ['one over another column', 'CREATE UNIQUE INDEX ON $S.inbox (consumer, fp)'],
    ['one over an expression', 'CREATE UNIQUE INDEX ON $S.inbox (consumer, md5(key))'],
    ['one that is checked late', 'ALTER TABLE $S.inbox ADD UNIQUE (consumer, key) DEFERRABLE INITIALLY DEFERRED'],
    [
      'one that was never finished',
      `CREATE UNIQUE INDEX unfinished ON $S.inbox (consumer, key);
       UPDATE pg_index SET indisvalid = false WHERE indexrelid = '$S.unfinished'::regclass`,
    ],
  ])('a unique index that does not hold: %s', async (_, sql) => {
    await change(`ALTER TABLE $S.inbox DROP CONSTRAINT inbox_pkey; ${sql}`);
    await expect(start()).rejects.toMatchObject({
      code: 'NT_SCHEMA',
      message: expect.stringMatching(/inbox"? has no valid unique index over \(consumer, key\)/),
    });
  });

  test.each([
    ['the primary key', ''],
    [
      'a unique index in the other order',
      'ALTER TABLE $S.inbox DROP CONSTRAINT inbox_pkey; CREATE UNIQUE INDEX ON $S.inbox (key, consumer)',
    ],
    ['a column of the user’s own', 'ALTER TABLE $S.inbox ADD COLUMN note text'],
    [
      'a dropped column of the user’s own',
      'ALTER TABLE $S.inbox ADD COLUMN note text; ALTER TABLE $S.inbox DROP COLUMN note',
    ],
  ])('what holds is accepted: %s', async (_, sql) => {
    if (sql !== '') await change(sql);
    await expect(start()).resolves.toBeDefined();
  });

  test('a fit table that was made by hand before the first migration is taken', async () => {
    await change('DELETE FROM $S.migrations');
    expect(await postgresStore(pool, { schema }).migrate()).toEqual([1, 2, 3]);
    await expect(start()).resolves.toBeDefined();
  });

  test('a table that was there before the first migration is not taken for ours', async () => {
    await change(
      'DROP SCHEMA $S CASCADE; CREATE SCHEMA $S; CREATE TABLE $S.inbox (id text PRIMARY KEY, at timestamptz)',
    );
    const error = await postgresStore(pool, { schema })
      .open({ name: 'pay', signature: 's' })
      .catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'NT_SCHEMA', message: expect.stringMatching(/inbox"?\.consumer is missing/) });
    expect((await pool.query('SELECT to_regclass($1) AS there', [`${schema}.migrations`])).rows).toEqual([
      { there: null },
    ]);
  });
});
