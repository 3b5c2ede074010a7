// Claims the message by a row with a status, and leaves it alone where there is one: also that of a consumer that has died.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE job (id text PRIMARY KEY, status text NOT NULL);`,
  expect: 'lost',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const claim = await pool.query(`INSERT INTO job (id, status) VALUES ($1, 'processing') ON CONFLICT DO NOTHING`, [id]);
  if (claim.rowCount === 0) return;
  await pool.query(
    `WITH done AS (UPDATE job SET status = 'done' WHERE id = $1)
     UPDATE wallet SET balance = balance + $2 WHERE id = $3`,
    [id, amount, account],
  );
}
