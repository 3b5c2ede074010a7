// Catches an error inside of the transaction: PostgreSQL answers the COMMIT with ROLLBACK, which nobody looks at.
import { eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable, text } from 'drizzle-orm/pg-core';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const db = drizzle({ client: new Pool({ connectionString: process.env.DATABASE_URL }) });
const processed = pgTable('processed', { id: text().primaryKey() });
const wallet = pgTable('wallet', { id: text().primaryKey(), balance: integer().notNull() });

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  expect: 'lost',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message) {
  await db.transaction(
    async tx => {
      const mark = await tx.insert(processed).values({ id: message.id }).onConflictDoNothing();
      if (mark.rowCount === 0) return;
      try {
        const balance = sql`${wallet.balance} + ${message.amount}`;
        await tx.update(wallet).set({ balance }).where(eq(wallet.id, message.account));
      } catch (error) {
        console.error('could not pay', error);
      }
    },
    { isolationLevel: 'repeatable read' },
  );
}
