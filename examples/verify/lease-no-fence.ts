// A lease that has run out may be taken over, but the first holder is not asked whether it still has it when it finishes.
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

interface Tables {
  wallet: { id: string; balance: number };
  lease: { id: string; locked_until: Date; done: boolean };
}
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });

export const verify = {
  ...fixture,
  // No time passes in the verifier: a lease of no length stands for one that ran out while its holder was stopped.
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE lease (id text PRIMARY KEY, locked_until timestamptz NOT NULL, done bool NOT NULL DEFAULT false);`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const lease = await sql`
    INSERT INTO lease (id, locked_until) VALUES (${id}, now() + interval '0 s')
    ON CONFLICT (id) DO UPDATE SET locked_until = excluded.locked_until
    WHERE NOT lease.done AND lease.locked_until <= now() RETURNING id`.execute(db);
  if (lease.rows.length === 0) return;
  await db.transaction().execute(async trx => {
    const balance = sql<number>`balance + ${amount}`;
    await trx.updateTable('wallet').set({ balance }).where('id', '=', account).execute();
    await trx.updateTable('lease').set({ done: true }).where('id', '=', id).execute();
  });
}
