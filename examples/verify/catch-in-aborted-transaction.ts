// Goes on in a transaction that its unique violation has aborted: every further statement fails with 25P02.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = {
  ...fixture,
  schema: `${fixture.schema} CREATE TABLE duplicate (id text NOT NULL);`,
  ignore: ['duplicate'],
  expect: 'poisoned',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await sql.begin(async tx => {
    try {
      await tx`INSERT INTO processed (id) VALUES (${id})`;
    } catch (error) {
      if ((error as postgres.PostgresError).code !== '23505') throw error;
      await tx`INSERT INTO duplicate (id) VALUES (${id})`;
      return;
    }
    await tx`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
  });
}
