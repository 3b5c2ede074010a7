// Ends its process when its connection is lost, and is started again: no worse than a crash, since all is in one transaction.
import { Client } from 'pg';
import { fixture } from './fixture.ts';

const client = new Client({ connectionString: process.env.DATABASE_URL });
client.on('error', () => process.exit(1));
if (process.env.DATABASE_URL !== undefined) await client.connect();

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await client.query('BEGIN');
  const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
  if (mark.rowCount === 1) {
    await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
  }
  await client.query('COMMIT');
}
