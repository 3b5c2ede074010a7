// The payment is inserted once, and the sum is raised in a second statement outside of any transaction: it falls behind.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE payment (id text PRIMARY KEY, account text NOT NULL, amount int NOT NULL);`,
  expect: 'partial',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const row = await pool.query(
    'INSERT INTO payment (id, account, amount) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING',
    [id, account, amount],
  );
  if (row.rowCount === 0) return;
  await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
}
