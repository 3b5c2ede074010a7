// The unique key does its work, and its error goes to the broker: a duplicate fails for ever, and blocks or is dead-lettered.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'poisoned', cost: 1 };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO processed (id) VALUES ($1)', [id]);
    await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
