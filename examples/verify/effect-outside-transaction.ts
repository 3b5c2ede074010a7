// The mark is in the transaction, the effect goes through the pool: a rollback takes only the mark back.
import { eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable, text } from 'drizzle-orm/pg-core';
import { fixture } from './fixture.ts';

const db = drizzle(process.env.DATABASE_URL!);
const processed = pgTable('processed', { id: text().primaryKey() });
const wallet = pgTable('wallet', { id: text().primaryKey(), balance: integer().notNull() });

export const verify = { ...fixture, expect: 'double', cost: 1 };

async function pay(account: string, amount: number) {
  const balance = sql`${wallet.balance} + ${amount}`;
  await db.update(wallet).set({ balance }).where(eq(wallet.id, account));
}

export default async function onPayment(message: typeof fixture.message) {
  await db.transaction(async tx => {
    const mark = await tx.insert(processed).values({ id: message.id }).onConflictDoNothing();
    if (mark.rowCount === 1) await pay(message.account, message.amount);
  });
}
