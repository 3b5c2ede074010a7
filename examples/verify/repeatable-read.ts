// REPEATABLE READ keeps what a transaction saw, also after somebody else has inserted the same: write skew.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: 'CREATE TABLE ledger (message text NOT NULL, account text NOT NULL, amount int NOT NULL)',
  seed: '',
  expect: 'double',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    const seen = await client.query('SELECT 1 FROM ledger WHERE message = $1', [message.id]);
    if (seen.rowCount === 0) {
      const row = [message.id, message.account, message.amount];
      await client.query('INSERT INTO ledger (message, account, amount) VALUES ($1, $2, $3)', row);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
