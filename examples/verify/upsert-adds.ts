// An upsert is idempotent only if it sets; this one adds.
import { Kysely, PostgresDialect } from 'kysely';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

interface Tables {
  wallet: { id: string; balance: number };
}
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment({ account, amount }: typeof fixture.message) {
  await db
    .insertInto('wallet')
    .values({ id: account, balance: amount })
    .onConflict(oc =>
      oc.column('id').doUpdateSet(eb => ({ balance: eb('wallet.balance', '+', eb.ref('excluded.balance')) })),
    )
    .execute();
}
