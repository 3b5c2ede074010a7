// Clears out old marks before it looks for its own: a copy that comes later than a mark is kept meets none.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());`,
  expect: 'double',
  cost: 1,
};

// No time passes in the verifier: this stands for any time that is shorter than that until the last redelivery.
const KEEP = '0 seconds';

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await pool.query('DELETE FROM processed WHERE at < now() - $1::interval', [KEEP]);
  await pool.query(
    `WITH mark AS (INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
     UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`,
    [id, amount, account],
  );
}
