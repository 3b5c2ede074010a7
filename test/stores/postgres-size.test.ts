import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodeKey } from '../../src/identity/encoding.ts';
import { createInbox } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

let database: FreshDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 4 });
});
afterAll(() => database.drop());

const ROWS = 100_000;
const BATCH = 500;

/** Bytes a row takes in the table and its index together, after as many random UUIDs have been claimed. */
async function bytesPerRow(schema: string, fingerprint: boolean): Promise<number> {
  const inbox = await postgresStore(pool, { schema }).open({ name: 'pay', signature: 's' });
  const claimBatch = () => {
    const claims = Array.from({ length: BATCH }, () =>
      Object.assign(encodeKey(randomUUID()), {
        fingerprint: fingerprint ? randomBytes(16).toString('hex') : undefined,
      }),
    );
    return inbox.transaction(claims, { budgetMs: 1_000, overlap: false }, async () => undefined);
  };
  const lane = async () => {
    for (let i = 0; i < ROWS / BATCH / 2; i++) await claimBatch();
  };
  await Promise.all([lane(), lane()]);
  await pool.query(`VACUUM ${schema}.inbox`);
  const { rows } = await pool.query(
    `SELECT count(*)::int AS n, pg_total_relation_size('${schema}.inbox')::int AS bytes FROM ${schema}.inbox`,
  );
  expect(rows[0].n).toBe(ROWS);
  return rows[0].bytes / ROWS;
}

describe(`${ROWS} processed messages with random UUIDs`, () => {
  test('take at most 120 bytes each, table and index together', async ({ annotate }) => {
    const bytes = await bytesPerRow('plain', false);
    await annotate(`${bytes.toFixed(1)} bytes a row`);
    expect(bytes).toBeLessThanOrEqual(120);
  });

  test('take at most 20 bytes more with a fingerprint', async ({ annotate }) => {
    const bytes = await bytesPerRow('with_fingerprint', true);
    await annotate(`${bytes.toFixed(1)} bytes a row`);
    expect(bytes).toBeLessThanOrEqual(140);
  });
});

test('the readable view shows every kind of id', async () => {
  const uuid = randomUUID();
  const long = 'x'.repeat(256);
  const ids = [uuid, uuid.toUpperCase(), 'order-17', 'ähnlich 😀', 'x'.repeat(255), long];
  const inbox = createInbox({ name: 'pay', store: postgresStore(pool) });
  for (const id of ids) await inbox.process({ id, body: {} }, (_, { sql }) => sql`SELECT 1`);
  const { rows } = await pool.query('SELECT consumer, message_id, processed_at FROM nevertwice.inbox_readable');
  expect(rows.map(row => row.message_id).sort()).toEqual(
    [...ids.slice(0, -1), `sha256:${createHash('sha256').update(long).digest('hex')}`].sort(),
  );
  expect(new Set(rows.map(row => row.consumer))).toEqual(new Set(['pay']));
  for (const { processed_at: at } of rows) expect(Math.abs(at.getTime() - Date.now())).toBeLessThan(60_000);
});

test('C44: in a batch of which only some have a fingerprint, those keep it and the others have none', async () => {
  const inbox = await postgresStore(pool).open({ name: 'mixed', signature: 's' });
  const fingerprint = (i: number) => (i % 2 === 0 ? undefined : `${i}`.repeat(32));
  const claims = [0, 1, 2, 3].map(i => Object.assign(encodeKey(`id ${i}`), { fingerprint: fingerprint(i) }));
  const transaction = (list: typeof claims) =>
    inbox.transaction(list, { budgetMs: 1_000, overlap: false }, unit => unit.answers());
  await transaction(claims);
  const { rows } = await pool.query(
    `SELECT encode(fp, 'hex') AS fp FROM nevertwice.inbox JOIN nevertwice.consumers c ON c.id = consumer
     WHERE name = 'mixed' ORDER BY key`,
  );
  expect(rows.map(row => row.fp ?? undefined)).toEqual([0, 1, 2, 3].map(fingerprint));
  const changed = [0, 1, 2, 3].map(i => Object.assign(encodeKey(`id ${i}`), { fingerprint: 'f'.repeat(32) }));
  expect((await transaction(changed)).map(answer => answer.answer)).toEqual([
    'duplicate',
    'conflict',
    'duplicate',
    'conflict',
  ]);
});
