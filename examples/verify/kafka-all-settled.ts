// Handles the batch in parallel and waits with allSettled, which never fails: nobody reads how the records ended.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  broker: 'kafka',
  batch: true,
  expect: 'lost',
  cost: 1,
};

const PAY = `
  WITH mark AS (INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
  UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`;

export default async function onBatch(messages: readonly (typeof fixture.message)[]) {
  await Promise.allSettled(messages.map(({ id, account, amount }) => pool.query(PAY, [id, amount, account])));
}
