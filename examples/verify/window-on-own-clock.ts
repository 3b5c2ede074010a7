// Forgets what is older than ten minutes by its own clock: where that is ahead, what another consumer has just marked is old.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id text PRIMARY KEY, at bigint NOT NULL);`,
  expect: 'double',
  cost: 2,
};

const WINDOW_MS = 10 * 60_000;

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    await client.query('DELETE FROM processed WHERE at < $1', [Date.now() - WINDOW_MS]);
    const mark = await client.query('INSERT INTO processed (id, at) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
      id,
      Date.now(),
    ]);
    if (mark.rowCount === 1) {
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
