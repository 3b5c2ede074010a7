// Looks whether the id is there, and acts if not: two copies at once both look first.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  const seen = await pool.query('SELECT 1 FROM processed WHERE id = $1', [message.id]);
  if (seen.rowCount !== 0) return;
  await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
  await pool.query('INSERT INTO processed (id) VALUES ($1)', [message.id]);
}
