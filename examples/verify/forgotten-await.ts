// Nobody waits for the effect: the message is acked while it is still under way, and its failure is nobody's.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'lost', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  const mark = await pool.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [message.id]);
  if (mark.rowCount === 0) return;
  // biome-ignore lint/nursery/noFloatingPromises: this is the mistake
  pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
}
