// Takes a lock that is held for a duplicate in work, and acks: when its holder then dies, nobody has the message any more.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = { ...fixture, expect: 'lost', cost: 2 };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await sql.begin(async tx => {
    const [lock] = await tx`SELECT pg_try_advisory_xact_lock(hashtext(${id})) AS taken`;
    if (!lock!.taken) return;
    const mark = await tx`INSERT INTO processed (id) VALUES (${id}) ON CONFLICT DO NOTHING`;
    if (mark.count === 1) await tx`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
  });
}
