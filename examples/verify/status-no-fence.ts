// Whoever finds the message unfinished takes it over; the one that it was taken from is not stopped from finishing, too.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE job (id text PRIMARY KEY, status text NOT NULL);`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const claim = await pool.query(
    `INSERT INTO job (id, status) VALUES ($1, 'processing')
     ON CONFLICT (id) DO UPDATE SET status = 'processing' WHERE job.status <> 'done'`,
    [id],
  );
  if (claim.rowCount === 0) return;
  await pool.query(
    `WITH done AS (UPDATE job SET status = 'done' WHERE id = $1)
     UPDATE wallet SET balance = balance + $2 WHERE id = $3`,
    [id, amount, account],
  );
}
