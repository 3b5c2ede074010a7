// WHERE NOT EXISTS looks like a key and is none: what another transaction has not committed does not exist.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id text NOT NULL);`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await sql.begin(async tx => {
    const mark = await tx`
      INSERT INTO processed (id) SELECT ${id} WHERE NOT EXISTS (SELECT 1 FROM processed WHERE id = ${id})`;
    if (mark.count === 1) await tx`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
  });
}
