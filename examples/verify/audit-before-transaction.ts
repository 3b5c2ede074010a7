// Writes the audit row before the transaction that looks for duplicates: each copy is in the books.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = {
  ...fixture,
  schema: `${fixture.schema} CREATE TABLE audit (at timestamptz NOT NULL DEFAULT now(), what text NOT NULL);`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await sql`INSERT INTO audit (what) VALUES (${`${account} gets ${amount}`})`;
  await sql.begin(async tx => {
    const mark = await tx`INSERT INTO processed (id) VALUES (${id}) ON CONFLICT DO NOTHING`;
    if (mark.count === 1) await tx`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
  });
}
