// Both writes go through `tx`, so they commit together; the primary key lets one of two copies through.
import { eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable, text } from 'drizzle-orm/pg-core';
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
// A client that nobody listens to ends the process when it loses its connection.
pool.on('connect', client => void client.on('error', () => undefined));
const db = drizzle({ client: pool });

const wallet = pgTable('wallet', { id: text().primaryKey(), balance: integer().notNull() });
const processed = pgTable('processed', { id: text().primaryKey() });

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment(message: typeof fixture.message) {
  await db.transaction(async tx => {
    const mark = await tx.insert(processed).values({ id: message.id }).onConflictDoNothing().returning();
    if (mark.length === 0) return;
    await tx
      .update(wallet)
      .set({ balance: sql`${wallet.balance} + ${message.amount}` })
      .where(eq(wallet.id, message.account));
  });
}
