// Both writes go through `trx`, so they commit together; the primary key lets one of two copies through.
import { Kysely, PostgresDialect } from 'kysely';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

interface Tables {
  wallet: { id: string; balance: number };
  processed: { id: string };
}

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
// A client that nobody listens to ends the process when it loses its connection.
pool.on('connect', client => void client.on('error', () => undefined));
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await db.transaction().execute(async trx => {
    const mark = await trx
      .insertInto('processed')
      .values({ id })
      .onConflict(conflict => conflict.doNothing())
      .executeTakeFirstOrThrow();
    if (mark.numInsertedOrUpdatedRows !== 1n) return;
    await trx
      .updateTable('wallet')
      .set(row => ({ balance: row('balance', '+', amount) }))
      .where('id', '=', account)
      .execute();
  });
}
