// Applies what has a higher number than the last: what is overtaken by a later message counts as a duplicate.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  messages: [
    { seq: 1, account: 'alice', amount: 5 },
    { seq: 2, account: 'alice', amount: 7 },
  ],
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL, last_seq int NOT NULL DEFAULT 0)',
  seed: fixture.seed.replace('wallet', 'wallet (id, balance)'),
  order: 'as-sent',
  expect: 'reordered',
  cost: 0,
};

export default async function onPayment({ seq, account, amount }: (typeof verify.messages)[number]) {
  await pool.query('UPDATE wallet SET balance = balance + $1, last_seq = $2 WHERE id = $3 AND last_seq < $2', [
    amount,
    seq,
    account,
  ]);
}
