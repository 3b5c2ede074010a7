// SKIP LOCKED is for queues: here it makes a wallet that another payment is at look as if it did not exist.
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const db = new Kysely<{ wallet: { id: string; balance: number } }>({ dialect: new PostgresDialect({ pool }) });

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  expect: 'lost',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await db.transaction().execute(async trx => {
    const mark = await sql`INSERT INTO processed (id) VALUES (${id}) ON CONFLICT DO NOTHING`.execute(trx);
    if (mark.numAffectedRows === 0n) return;
    const wallets = trx.selectFrom('wallet').selectAll().where('id', '=', account);
    for (const wallet of await wallets.forUpdate().skipLocked().execute()) {
      const balance = wallet.balance + amount;
      await trx.updateTable('wallet').set({ balance }).where('id', '=', account).execute();
    }
  });
}
