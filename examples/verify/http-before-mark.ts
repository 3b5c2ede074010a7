// The request goes out before anything is written down: whoever dies after it sends it again.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, env: { DATABASE_URL: 'postgres', BANK_URL: 'http' }, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  const seen = await pool.query('SELECT 1 FROM processed WHERE id = $1', [message.id]);
  if (seen.rowCount !== 0) return;
  const response = await fetch(`${process.env.BANK_URL}/charges`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ account: message.account, amount: message.amount }),
  });
  if (!response.ok) throw new Error(`the bank said ${response.status}`);
  await pool.query('INSERT INTO processed (id) VALUES ($1)', [message.id]);
}
