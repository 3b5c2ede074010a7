// A batch is one call of the inbox and one transaction: records and effects of all its messages, or of none.
import { createInbox } from 'nevertwice';
import { postgresStore } from 'nevertwice/postgres';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const inbox = createInbox({ name: 'wallet', store: postgresStore(pool) });
// At the start, so that the first message does not wait for it.
if (process.env.DATABASE_URL !== undefined) await inbox.open();

export const verify = {
  broker: 'kafka',
  batch: true,
  messages: [
    { id: 'm1', body: { account: 'alice', amount: 5 } },
    { id: 'm2', body: { account: 'alice', amount: 20 } },
  ],
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)',
  seed: fixture.seed,
  expect: 'once',
};

export default async function onPayments(messages: typeof verify.messages) {
  await inbox.processBatch(messages, async (fresh, { tx }) => {
    for (const { body } of fresh) {
      await tx.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [body.amount, body.account]);
    }
  });
}
