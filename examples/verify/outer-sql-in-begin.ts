// Inside of sql.begin the effect uses the outer `sql`, which is another connection: it commits by itself, before the mark.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  await sql.begin(async tx => {
    const mark = await tx`INSERT INTO processed (id) VALUES (${message.id}) ON CONFLICT DO NOTHING`;
    if (mark.count === 0) return;
    await sql`UPDATE wallet SET balance = balance + ${message.amount} WHERE id = ${message.account}`;
  });
}
