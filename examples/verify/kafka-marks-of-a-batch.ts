// Marks the whole batch in one statement and then does its effects one by one: those after a crash are marked and not done.
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
  const { rows } = await pool.query(
    'INSERT INTO processed (id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING RETURNING id',
    [messages.map(message => message.id)],
  );
  const fresh = new Set(rows.map(row => row.id));
  for (const message of messages) {
    if (!fresh.has(message.id)) continue;
    await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [message.amount, message.account]);
  }
}
