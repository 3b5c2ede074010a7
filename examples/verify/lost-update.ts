// Deduplicates well, but reads the balance and writes back what it computed: of two payments at once one is overwritten.
import { Kysely, PostgresDialect } from 'kysely';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

interface Tables {
  wallet: { id: string; balance: number };
  processed: { id: string };
}
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  expect: 'lost',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await db.transaction().execute(async trx => {
    const mark = await trx
      .insertInto('processed')
      .values({ id })
      .onConflict(oc => oc.doNothing())
      .executeTakeFirst();
    if (mark.numInsertedOrUpdatedRows === 0n) return;
    const wallet = await trx.selectFrom('wallet').selectAll().where('id', '=', account).executeTakeFirstOrThrow();
    await trx
      .updateTable('wallet')
      .set({ balance: wallet.balance + amount })
      .where('id', '=', account)
      .execute();
  });
}
