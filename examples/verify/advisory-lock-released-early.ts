// Gives the lock back before the COMMIT: the next one looks for the mark while it is still to be committed.
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

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    await client.query('SELECT pg_advisory_lock(hashtext($1))', [id]);
    const seen = await client.query('SELECT 1 FROM processed WHERE id = $1', [id]);
    if (seen.rowCount === 0) {
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
      await client.query('INSERT INTO processed (id) VALUES ($1)', [id]);
    }
    await client.query('SELECT pg_advisory_unlock(hashtext($1))', [id]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
