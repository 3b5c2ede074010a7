// Gives the connection back without a ROLLBACK: whoever gets it next is in a transaction that is aborted already.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  expect: 'poisoned',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (mark.rowCount === 1) {
      await client.query('SELECT 1 FROM wallet WHERE id = $1 FOR UPDATE NOWAIT', [account]);
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    }
    await client.query('COMMIT');
  } finally {
    client.release();
  }
}
