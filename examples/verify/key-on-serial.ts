// The table has a primary key, but it is a number of its own: ON CONFLICT never meets one.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id serial PRIMARY KEY, message text NOT NULL);`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await sql.begin(async tx => {
    const mark = await tx`INSERT INTO processed (message) VALUES (${id}) ON CONFLICT DO NOTHING`;
    if (mark.count === 0) return;
    await tx`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
  });
}
