// ON CONFLICT DO NOTHING keeps the mark single, but nobody looks whether it was there: the effect follows either way.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  await sql.begin(async tx => {
    await tx`INSERT INTO processed (id) VALUES (${message.id}) ON CONFLICT DO NOTHING`;
    await tx`UPDATE wallet SET balance = balance + ${message.amount} WHERE id = ${message.account}`;
  });
}
