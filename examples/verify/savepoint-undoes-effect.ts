// When the effect fails, it goes back to the savepoint and commits the rest: the mark of what was not done.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  expect: 'lost',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [message.id]);
    if (mark.rowCount === 1) {
      await client.query('SAVEPOINT effect');
      try {
        await client.query('SELECT 1 FROM wallet WHERE id = $1 FOR UPDATE NOWAIT', [message.account]);
        await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
      } catch {
        await client.query('ROLLBACK TO SAVEPOINT effect');
      }
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
