// All fresh messages of a delivery, their effects and their records are one transaction of this library.
import { createConsumer } from 'nevertwice';
import { postgresStore } from 'nevertwice/postgres';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  broker: 'kafka',
  messages: [
    { id: 'm1', body: { account: 'alice', amount: 5 } },
    { id: 'm2', body: { account: 'alice', amount: 20 } },
  ],
  schema: 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL)',
  seed: fixture.seed,
  expect: 'once',
};

export default createConsumer({
  name: 'wallet',
  store: postgresStore(pool),
  handleBatch: async (messages, { sql }) => {
    const bodies = messages.map(({ body }) => body as (typeof verify.messages)[number]['body']);
    const [accounts, amounts] = [bodies.map(body => body.account), bodies.map(body => body.amount)];
    await sql`UPDATE wallet SET balance = balance + paid.amount
      FROM (SELECT account, sum(amount) AS amount FROM unnest(${accounts}::text[], ${amounts}::int[]) AS t(account, amount)
        GROUP BY account) AS paid WHERE wallet.id = paid.account`;
  },
});
