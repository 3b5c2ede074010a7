// Inserts the mark and counts: two transactions at once count one each, as neither sees what the other has not committed.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id text NOT NULL);
    CREATE INDEX ON processed (id);`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO processed (id) VALUES ($1)', [message.id]);
    const { rows } = await client.query('SELECT count(*)::int AS n FROM processed WHERE id = $1', [message.id]);
    if (rows[0].n > 1) return void (await client.query('ROLLBACK'));
    await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
