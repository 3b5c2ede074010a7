// The rows of the inbox are deleted after a while; what comes later than that, the version in the wallet refuses.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  message: { ...fixture.message, version: 7 },
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL, version int NOT NULL);
    CREATE TABLE processed (id text PRIMARY KEY);`,
  seed: `INSERT INTO wallet VALUES ('alice', 100, 6)`,
  prune: 'DELETE FROM processed',
  expect: 'once',
};

export default async function onPayment({ id, account, amount, version }: typeof verify.message) {
  await pool.query(
    `WITH mark AS (INSERT INTO processed VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
     UPDATE wallet SET balance = balance + $2, version = $4 FROM mark WHERE wallet.id = $3 AND wallet.version < $4`,
    [id, amount, account, version],
  );
}
