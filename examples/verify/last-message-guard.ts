// Keeps only the last id per wallet, as an UPDATE with a guard: a copy that comes after another message is not the last.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL, last_message text)',
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  ignore: ['wallet.last_message'],
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await pool.query(
    `UPDATE wallet SET balance = balance + $1, last_message = $2
     WHERE id = $3 AND last_message IS DISTINCT FROM $2`,
    [amount, id, account],
  );
}
