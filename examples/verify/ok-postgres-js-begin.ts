// sql.begin commits the mark and the effect together, and rolls both back when either fails.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await sql.begin(async tx => {
    const mark = await tx`INSERT INTO processed (id) VALUES (${id}) ON CONFLICT DO NOTHING`;
    if (mark.count === 1) await tx`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
  });
}
