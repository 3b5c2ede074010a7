// The effect commits, and the mark follows in a transaction of its own: what dies in between acts again.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'double', cost: 1 };

async function transaction(statements: readonly (readonly [string, unknown[]])[]) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    for (const [text, values] of statements) await client.query(text, values);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const seen = await pool.query('SELECT 1 FROM processed WHERE id = $1', [id]);
  if (seen.rowCount !== 0) return;
  await transaction([['UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]]]);
  await transaction([['INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]]]);
}
