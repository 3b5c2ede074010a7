// Marks the id as done and then does it: what dies in between is lost.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'lost', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  const mark = await pool.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [message.id]);
  if (mark.rowCount === 0) return;
  await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
}
