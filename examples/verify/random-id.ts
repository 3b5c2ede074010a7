// The consumer makes the id itself: every copy of the message gets another one.
import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  const id = randomUUID();
  await sql.begin(async tx => {
    const mark = await tx`INSERT INTO processed (id) VALUES (${id}) ON CONFLICT DO NOTHING`;
    if (mark.count === 0) return;
    await tx`UPDATE wallet SET balance = balance + ${message.amount} WHERE id = ${message.account}`;
  });
}
