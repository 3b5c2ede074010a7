// The COMMIT is in the finally block: a payment that is refused, as its wallet is not open yet, leaves its mark behind.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  messages: [
    { id: 'm1', kind: 'open', account: 'bob', amount: 0 },
    { id: 'm2', kind: 'pay', account: 'bob', amount: 5 },
  ],
  schema: fixture.schema,
  order: 'as-sent',
  expect: 'reordered',
  cost: 0,
};

export default async function onEvent({ id, kind, account, amount }: (typeof verify.messages)[number]) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (mark.rowCount === 0) return;
    const effect =
      kind === 'open'
        ? await client.query('INSERT INTO wallet (id, balance) VALUES ($1, $2)', [account, amount])
        : await client.query('UPDATE wallet SET balance = balance + $2 WHERE id = $1', [account, amount]);
    if (effect.rowCount === 0) throw new Error(`there is no wallet ${account}`);
  } finally {
    await client.query('COMMIT');
    client.release();
  }
}
