// Shares one promise between the copies of a message, and keeps it when it is rejected: each redelivery fails as the first did.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const working = new Map<string, Promise<unknown>>();

export const verify = {
  ...fixture,
  // Another consumer knows nothing of it, and would pay again, as with memory-set.ts.
  bounds: { crashes: 0, duplicates: 0 },
  expect: 'poisoned',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  let payment = working.get(id);
  if (payment === undefined) {
    payment = pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    working.set(id, payment);
  }
  await payment;
}
