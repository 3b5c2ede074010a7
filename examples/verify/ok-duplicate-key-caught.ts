// The second mark is an error that rolls everything back, and it says that another transaction has committed the same.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    await client.query('INSERT INTO processed (id) VALUES ($1)', [id]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    const { code, constraint } = error as { code?: string; constraint?: string };
    if (code !== '23505' || constraint !== 'processed_pkey') throw error;
  } finally {
    client.release();
  }
}
