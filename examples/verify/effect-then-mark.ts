// The effect comes first, and the key on the mark only stops the mark: the second copy has paid by then, and fails for ever.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
  await pool.query('INSERT INTO processed (id) VALUES ($1)', [message.id]);
}
