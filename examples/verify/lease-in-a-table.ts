// The lease in the row keeps others away for a minute, and nothing asks at the end whether it was still held.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE lease (id text PRIMARY KEY, until timestamptz NOT NULL, done boolean NOT NULL DEFAULT false);`,
  expire: 'UPDATE lease SET until = now()',
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const lease = await pool.query(
    `INSERT INTO lease (id, until) VALUES ($1, now() + interval '1 minute')
     ON CONFLICT (id) DO UPDATE SET until = excluded.until WHERE lease.until <= now() OR lease.done
     RETURNING done`,
    [id],
  );
  if (lease.rowCount === 0) throw new Error('another consumer is at it');
  if (lease.rows[0].done) return;
  // Both in one statement, so that a crash cannot part them.
  await pool.query(
    `WITH done AS (UPDATE lease SET done = true WHERE id = $1)
     UPDATE wallet SET balance = balance + $2 WHERE id = $3`,
    [id, amount, account],
  );
}
