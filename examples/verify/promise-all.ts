// Mark and effect go out at the same time, on two connections: neither waits for the other.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  expect: 'double',
  cost: 1,
  missed: 'requests of one handler that run in parallel come in another order each time',
};

export default async function onPayment(message: typeof fixture.message) {
  await Promise.all([
    pool.query('INSERT INTO processed (id) VALUES ($1)', [message.id]),
    pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]),
  ]);
}
