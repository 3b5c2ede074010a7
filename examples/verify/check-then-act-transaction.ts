// Looks and acts in one transaction, but no unique key stops two transactions that both saw nothing.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id text NOT NULL);`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const seen = await client.query('SELECT 1 FROM processed WHERE id = $1', [message.id]);
    if (seen.rowCount === 0) {
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
      await client.query('INSERT INTO processed (id) VALUES ($1)', [message.id]);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
