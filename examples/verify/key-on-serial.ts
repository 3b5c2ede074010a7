// The table has a primary key, but it is a number of its own: ON CONFLICT never meets one.
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable, serial, text } from 'drizzle-orm/pg-core';
import { fixture } from './fixture.ts';

const db = drizzle(process.env.DATABASE_URL!);
const processed = pgTable('processed', { id: serial().primaryKey(), message: text().notNull() });
const wallet = pgTable('wallet', { id: text().primaryKey(), balance: integer().notNull() });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE processed (id serial PRIMARY KEY, message text NOT NULL);`,
  expect: 'double',
  cost: 1,
};

export default async function onPayment(message: typeof fixture.message) {
  await db.transaction(async tx => {
    const mark = await tx.insert(processed).values({ message: message.id }).onConflictDoNothing().returning();
    if (mark.length === 0) return;
    const balance = sql`${wallet.balance} + ${message.amount}`;
    await tx.update(wallet).set({ balance }).where(sql`${wallet.id} = ${message.account}`);
  });
}
