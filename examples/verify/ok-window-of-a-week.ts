// Forgets what is older than a week: clocks do not differ by that much, and copies do not come that late.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id text PRIMARY KEY, at bigint NOT NULL);`,
  expect: 'once',
};

const WINDOW_MS = 7 * 24 * 3_600_000;

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
