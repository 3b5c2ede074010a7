// A transaction makes the two writes one, but every copy of the message is another one.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `${fixture.schema} CREATE TABLE ledger (id serial PRIMARY KEY, account text NOT NULL, amount int NOT NULL);`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
    await client.query('INSERT INTO ledger (account, amount) VALUES ($1, $2)', [message.account, message.amount]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}
