// Looks for the mark before it waits for the lock on the wallet: by the time that it has the lock, the answer is old.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const seen = await client.query('SELECT 1 FROM processed WHERE id = $1', [id]);
    if (seen.rowCount === 0) {
      const { rows } = await client.query('SELECT balance FROM wallet WHERE id = $1 FOR UPDATE', [account]);
      await client.query('UPDATE wallet SET balance = $1 WHERE id = $2', [rows[0].balance + amount, account]);
      await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
