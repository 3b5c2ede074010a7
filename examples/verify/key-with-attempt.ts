// The key holds the number of the delivery: each redelivery is another one.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id text NOT NULL, attempt int NOT NULL, PRIMARY KEY (id, attempt));`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message, delivery: { attempt: number }) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id, attempt) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
      message.id,
      delivery.attempt,
    ]);
    if (mark.rowCount === 1)
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
