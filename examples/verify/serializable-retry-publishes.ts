// Retries the transaction after a serialization failure, as one should, but what it has published does not roll back.
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const db = new Kysely<{ processed: { id: string } }>({ dialect: new PostgresDialect({ pool }) });

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  // A crash does the same, as in publish-before-commit.ts.
  bounds: { crashes: 0, faults: 0 },
  expect: 'double',
  cost: 1,
};

export default async function onPayment(
  { id, account, amount }: typeof fixture.message,
  broker: { publish(value: unknown): Promise<void> },
) {
  const transaction = db.transaction().setIsolationLevel('serializable');
  for (let attempt = 1; ; attempt++) {
    try {
      return await transaction.execute(async trx => {
        const mark = await sql`INSERT INTO processed (id) VALUES (${id}) ON CONFLICT DO NOTHING`.execute(trx);
        if (mark.numAffectedRows === 0n) return;
        await broker.publish({ receipt: id });
        await sql`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`.execute(trx);
      });
    } catch (error) {
      if ((error as { code?: string }).code !== '40001' || attempt === 3) throw error;
    }
  }
}
