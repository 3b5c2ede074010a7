// Takes the place in the log for the id: what the producer sends again has another one.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  broker: 'kafka',
  message: { ...fixture.message, partition: 0, offset: 42 },
  resent: { offset: 57 },
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (partition int NOT NULL, "offset" bigint NOT NULL, PRIMARY KEY (partition, "offset"));`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ partition, offset, account, amount }: typeof verify.message) {
  // Both in one statement, so that a crash cannot part them.
  await pool.query(
    `WITH mark AS (INSERT INTO processed VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING partition)
     UPDATE wallet SET balance = balance + $3 FROM mark WHERE wallet.id = $4`,
    [partition, offset, amount, account],
  );
}
