// The effect is in the transaction, the mark goes through `db` instead of `trx`: a rollback leaves the mark behind.
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

interface Tables {
  wallet: { id: string; balance: number };
  processed: { id: string };
}
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });

export const verify = { ...fixture, expect: 'lost', cost: 1 };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await db.transaction().execute(async trx => {
    const mark = await db
      .insertInto('processed')
      .values({ id })
      .onConflict(oc => oc.doNothing())
      .executeTakeFirst();
    if (mark.numInsertedOrUpdatedRows === 0n) return;
    const balance = sql<number>`balance + ${amount}`;
    await trx.updateTable('wallet').set({ balance }).where('id', '=', account).execute();
  });
}
