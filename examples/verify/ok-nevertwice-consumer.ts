// The consumer of this library writes its record of the message in the transaction that the handler's `sql` is in.
import { createConsumer } from 'nevertwice';
import { postgresStore } from 'nevertwice/postgres';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  message: { id: 'm1', body: { account: 'alice', amount: 5 } },
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)',
  seed: fixture.seed,
  expect: 'once',
};

export default createConsumer({
  name: 'wallet',
  store: postgresStore(pool),
  handle: async ({ body }, { sql }) => {
    const { account, amount } = body as typeof verify.message.body;
    await sql`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
  },
});
