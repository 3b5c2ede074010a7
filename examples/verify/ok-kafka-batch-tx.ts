// The whole batch is one transaction, with a mark for each message: whatever comes again of it finds its mark.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  broker: 'kafka',
  batch: true,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 20 }],
  expect: 'once',
};

export default async function onPayments(messages: readonly (typeof fixture.message)[]) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    for (const { id, account, amount } of messages) {
      const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
      if (mark.rowCount === 0) continue;
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
