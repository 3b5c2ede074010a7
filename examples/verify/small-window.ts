// Keeps the last few ids only: a copy that comes after as many other messages is unknown again.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (no serial, id text PRIMARY KEY);`,
  ignore: ['processed'],
  expect: 'double',
  cost: 1,
};

const WINDOW = 1;

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await pool.query(
    `WITH mark AS (INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
     UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`,
    [id, amount, account],
  );
  await pool.query('DELETE FROM processed WHERE no <= (SELECT max(no) FROM processed) - $1', [WINDOW]);
}
