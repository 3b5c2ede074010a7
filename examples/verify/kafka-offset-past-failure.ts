// A record that fails is logged and left out, and the offset of the whole batch is committed: it never comes again.
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

export default async function onBatch(messages: readonly (typeof fixture.message)[]) {
  for (const { id, account, amount } of messages) {
    try {
      await pool.query(
        `WITH mark AS (INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
         UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`,
        [id, amount, account],
      );
    } catch (error) {
      console.error('left out', id, error);
    }
  }
}
