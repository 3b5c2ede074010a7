// The charge is inside of the transaction, and does not roll back with it.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
// A client that nobody listens to ends the process when it loses its connection.
pool.on('connect', client => void client.on('error', () => undefined));

export const verify = { ...fixture, env: { DATABASE_URL: 'postgres', BANK_URL: 'http' }, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [message.id]);
    if (mark.rowCount === 1) {
      const response = await fetch(`${process.env.BANK_URL}/charges`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ account: message.account, amount: message.amount }),
      });
      if (!response.ok) throw new Error(`the bank said ${response.status}`);
    }
    await client.query('COMMIT');
  } catch (error) {
    broken = error as Error;
    throw error;
  } finally {
    client.release(broken);
  }
}
