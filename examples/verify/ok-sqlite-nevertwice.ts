// The record of the message is a row in the transaction that the handler's `sql` is in, in the same file.
import { createConsumer } from 'nevertwice';
import { sqliteStore } from 'nevertwice/sqlite';
import { sqliteFixture } from './sqlite-fixture.ts';

export const verify = {
  ...sqliteFixture,
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)',
  message: { id: 'm1', body: { account: 'alice', amount: 5 } },
  expect: 'once',
};

export default createConsumer({
  name: 'wallet',
  store: sqliteStore(process.env.DATABASE_FILE ?? ':memory:'),
  handle: async ({ body }, { sql }) => {
    const { account, amount } = body as typeof verify.message.body;
    await sql`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
  },
});
