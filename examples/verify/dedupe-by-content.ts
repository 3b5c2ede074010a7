// Takes what the message says for its id: two payments of the same amount to the same wallet are one for it.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  messages: [fixture.message, { ...fixture.message, id: 'm2' }],
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE payment (account text NOT NULL, amount int NOT NULL, PRIMARY KEY (account, amount));`,
  expect: 'lost',
  missed: 'the plain delivery, which is taken for right, loses the second payment, too',
  cost: 0,
  // The search has nothing to find.
  bounds: { total: 1 },
};

export default async function onPayment({ account, amount }: typeof fixture.message) {
  await pool.query(
    `WITH row AS (
       INSERT INTO payment (account, amount) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING account, amount)
     UPDATE wallet SET balance = balance + row.amount FROM row WHERE wallet.id = row.account`,
    [account, amount],
  );
}
