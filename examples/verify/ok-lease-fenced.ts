// Each delivery takes the lease over with a higher token, and the effect's own transaction looks whether it is still the highest.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE lease (id text PRIMARY KEY, token int NOT NULL DEFAULT 1, done boolean NOT NULL DEFAULT false);`,
  ignore: ['lease.token'],
  expect: 'once',
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const lease = await pool.query(
    'INSERT INTO lease (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET token = lease.token + 1 RETURNING token, done',
    [id],
  );
  const { token, done } = lease.rows[0];
  if (done) return;
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const own = await client.query('UPDATE lease SET done = true WHERE id = $1 AND token = $2 AND NOT done', [
      id,
      token,
    ]);
    if (own.rowCount !== 1) throw new Error('another consumer has taken it over');
    await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
