// No deduplication at all: every copy of the message is another payment.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
}
