// An advisory lock on the id lasts until the transaction's end: whoever comes second looks when the first has committed.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    await client.query('SELECT pg_advisory_xact_lock(hashtext($1))', [id]);
    const seen = await client.query('SELECT 1 FROM processed WHERE id = $1', [id]);
    if (seen.rowCount === 0) {
      await client.query('INSERT INTO processed (id) VALUES ($1)', [id]);
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
