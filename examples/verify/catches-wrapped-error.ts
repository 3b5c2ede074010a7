// Looks for 23505 in the error, but drizzle wraps it: the code is in its cause, and a duplicate fails for ever.
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { fixture } from './fixture.ts';

const db = drizzle(process.env.DATABASE_URL!);

export const verify = { ...fixture, expect: 'poisoned', cost: 1 };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  try {
    await db.transaction(async tx => {
      await tx.execute(sql`INSERT INTO processed (id) VALUES (${id})`);
      await tx.execute(sql`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`);
    });
  } catch (error) {
    if ((error as { code?: string }).code !== '23505') throw error;
  }
}
