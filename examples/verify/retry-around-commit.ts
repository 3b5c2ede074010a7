// Tries the transaction again when its COMMIT fails: but it may have happened, and only its reply be lost.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, bounds: { crashes: 0, duplicates: 0 }, expect: 'double', cost: 1 };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const seen = await pool.query('SELECT 1 FROM processed WHERE id = $1', [id]);
  if (seen.rowCount !== 0) return;
  for (let attempt = 1; ; attempt++) {
    const client = await pool.connect();
    client.once('error', () => undefined);
    try {
      await client.query('BEGIN');
      await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
      await client.query('COMMIT');
      return;
    } catch (error) {
      await client.query('ROLLBACK').catch(() => undefined);
      if (attempt === 3) throw error;
    } finally {
      client.release();
    }
  }
}
