// Refuses a message that somebody is at, so that it comes again: but who died is at it for ever, and it never gets through.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE job (id text PRIMARY KEY, status text NOT NULL);`,
  expect: 'poisoned',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const claim = await pool.query(`INSERT INTO job (id, status) VALUES ($1, 'processing') ON CONFLICT DO NOTHING`, [id]);
  if (claim.rowCount === 0) {
    const { rows } = await pool.query('SELECT status FROM job WHERE id = $1', [id]);
    if (rows[0].status === 'done') return;
    throw new Error(`somebody is working on ${id}`);
  }
  await pool.query(
    `WITH done AS (UPDATE job SET status = 'done' WHERE id = $1)
     UPDATE wallet SET balance = balance + $2 WHERE id = $3`,
    [id, amount, account],
  );
}
