// Does the effects of a batch one by one and marks all of them at its end: after a crash the first ones are done again.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  broker: 'kafka',
  batch: true,
  expect: 'double',
  cost: 1,
};

export default async function onBatch(messages: readonly (typeof fixture.message)[]) {
  const ids = messages.map(message => message.id);
  const seen = new Set((await sql`SELECT id FROM processed WHERE id IN ${sql(ids)}`).map(row => row.id));
  const fresh = messages.filter(message => !seen.has(message.id));
  if (fresh.length === 0) return;
  for (const { account, amount } of fresh)
    await sql`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
  await sql`INSERT INTO processed ${sql(fresh, 'id')} ON CONFLICT DO NOTHING`;
}
