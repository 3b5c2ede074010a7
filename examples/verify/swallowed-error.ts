// Logs what goes wrong and carries on: the broker takes the return for a success.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'lost', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  try {
    await pool.query(
      `WITH mark AS (INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
       UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`,
      [message.id, message.amount, message.account],
    );
  } catch (error) {
    console.error('payment failed', message.id, error);
  }
}
