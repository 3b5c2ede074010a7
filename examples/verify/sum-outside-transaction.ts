// Mark and payment commit together, but the sum is computed after the COMMIT: whoever dies there leaves it as it was.
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

interface Tables {
  processed: { id: string };
  payment: { account: string; amount: number };
}
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });

export const verify = {
  ...fixture,
  schema: `${fixture.schema} CREATE TABLE payment (account text NOT NULL, amount int NOT NULL);`,
  expect: 'partial',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const first = await db.transaction().execute(async trx => {
    const mark = await trx
      .insertInto('processed')
      .values({ id })
      .onConflict(oc => oc.doNothing())
      .executeTakeFirst();
    if (mark.numInsertedOrUpdatedRows === 0n) return false;
    await trx.insertInto('payment').values({ account, amount }).execute();
    return true;
  });
  if (!first) return;
  const sum = sql`(SELECT sum(amount) FROM payment WHERE account = ${account})`;
  await sql`UPDATE wallet SET balance = 100 + ${sum} WHERE id = ${account}`.execute(db);
}
