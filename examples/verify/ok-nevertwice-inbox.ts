// Whoever has a loop of his own asks the inbox of this library: it runs the effect in the transaction of its record.
import { createInbox } from 'nevertwice';
import { postgresStore } from 'nevertwice/postgres';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const inbox = createInbox({ name: 'wallet', store: postgresStore(pool) });
// At the start, so that the first message does not wait for it.
if (process.env.DATABASE_URL !== undefined) await inbox.open();

export const verify = {
  ...fixture,
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)',
  expect: 'once',
};

export default async function onPayment({ id, ...body }: typeof fixture.message) {
  await inbox.process({ id, body }, async (message, { tx }) => {
    const { amount, account } = message.body;
    await tx.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
  });
}
