// Nobody waits for the COMMIT: the message may be acked before it, and what then dies is lost.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'lost', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [message.id]);
    if (mark.rowCount === 1)
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
    client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}
