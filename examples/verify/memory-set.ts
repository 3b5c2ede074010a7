// Remembers the ids in the process: the next process knows none of them.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const seen = new Set<string>();

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  if (seen.has(message.id)) return;
  await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
  seen.add(message.id);
}
