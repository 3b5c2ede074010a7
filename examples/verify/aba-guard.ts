// Takes the balance that a payment starts from as its guard: after a payment back it is the same again, and a copy fits.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE booking (no serial PRIMARY KEY, account text NOT NULL, amount int NOT NULL);`,
  seed: fixture.seed,
  messages: [
    { id: 'm1', account: 'alice', from: 100, to: 105 },
    { id: 'm2', account: 'alice', from: 105, to: 100 },
  ],
  broker: 'kafka',
  order: 'as-sent',
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ account, from, to }: (typeof verify.messages)[number]) {
  await pool.query(
    `WITH moved AS (UPDATE wallet SET balance = $3 WHERE id = $1 AND balance = $2 RETURNING id)
     INSERT INTO booking (account, amount) SELECT id, $3::int - $2::int FROM moved`,
    [account, from, to],
  );
}
