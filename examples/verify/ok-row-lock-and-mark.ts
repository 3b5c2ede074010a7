// The lock on the wallet lets one copy at a time look whether the id is there; mark and effect commit with it.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const { rows } = await client.query('SELECT balance FROM wallet WHERE id = $1 FOR UPDATE', [account]);
    const seen = await client.query('SELECT 1 FROM processed WHERE id = $1', [id]);
    if (seen.rowCount === 0) {
      await client.query('UPDATE wallet SET balance = $1 WHERE id = $2', [rows[0].balance + amount, account]);
      await client.query('INSERT INTO processed (id) VALUES ($1)', [id]);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
