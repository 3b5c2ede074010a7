// Takes every unique violation for a duplicate, also that of the receipt number, which two payments at once both count up to.
import { Pool } from 'pg';
import type { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  messages: [
    { id: 'm1', account: 'alice', amount: 5 },
    { id: 'm2', account: 'bob', amount: 7 },
  ],
  schema: `
    CREATE TABLE processed (id text PRIMARY KEY);
    CREATE TABLE receipt (no int PRIMARY KEY, account text NOT NULL, amount int NOT NULL);`,
  expect: 'lost',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO processed (id) VALUES ($1)', [message.id]);
    await client.query(
      `INSERT INTO receipt (no, account, amount) SELECT coalesce(max(no), 0) + 1, $1, $2 FROM receipt`,
      [message.account, message.amount],
    );
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    if ((error as { code?: string }).code !== '23505') throw error;
  } finally {
    client.release();
  }
}
