// The message names the version it was made for, and the update raises it: a copy finds no row of that version any more.
import { Pool } from 'pg';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  message: { id: 'm1', account: 'alice', amount: 5, version: 7 },
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL, version int NOT NULL)',
  seed: `INSERT INTO wallet VALUES ('alice', 100, 7)`,
  expect: 'once',
};

export default async function onPayment({ account, amount, version }: typeof verify.message) {
  const updated = await pool.query(
    'UPDATE wallet SET balance = balance + $1, version = version + 1 WHERE id = $2 AND version = $3',
    [amount, account, version],
  );
  if (updated.rowCount === 1) return;
  const { rows } = await pool.query('SELECT version FROM wallet WHERE id = $1', [account]);
  // Behind the message, not ahead of it: what comes before has to come first.
  if (rows[0].version < version) throw new Error(`the wallet is only at version ${rows[0].version}`);
}
