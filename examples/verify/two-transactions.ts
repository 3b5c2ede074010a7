// Two tables, two transactions, and the mark in the first: what dies in between has paid, and nobody wrote it into the ledger.
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

interface Tables {
  wallet: { id: string; balance: number };
  processed: { id: string };
  ledger: { account: string; amount: number };
}
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });

export const verify = {
  ...fixture,
  schema: `${fixture.schema} CREATE TABLE ledger (account text NOT NULL, amount int NOT NULL);`,
  expect: 'partial',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const paid = await db.transaction().execute(async trx => {
    const mark = await trx
      .insertInto('processed')
      .values({ id })
      .onConflict(oc => oc.doNothing())
      .executeTakeFirst();
    if (mark.numInsertedOrUpdatedRows === 0n) return false;
    const balance = sql<number>`balance + ${amount}`;
    await trx.updateTable('wallet').set({ balance }).where('id', '=', account).execute();
    return true;
  });
  if (!paid) return;
  await db.transaction().execute(trx => trx.insertInto('ledger').values({ account, amount }).execute());
}
