// The row remembers the number of the last message that changed it; a copy has that number, or one below it.
import { Pool } from 'pg';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  broker: 'kafka',
  order: 'as-sent',
  messages: [
    { id: 'm1', account: 'alice', amount: 5, number: 1 },
    { id: 'm2', account: 'alice', amount: 20, number: 2 },
  ],
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL, last_number int NOT NULL)',
  seed: `INSERT INTO wallet VALUES ('alice', 100, 0)`,
  expect: 'once',
};

export default async function onPayment({ account, amount, number }: (typeof verify.messages)[number]) {
  await pool.query('UPDATE wallet SET balance = balance + $1, last_number = $2 WHERE id = $3 AND last_number < $2', [
    amount,
    number,
    account,
  ]);
}
