// Publishes after the COMMIT: what dies in between has paid, and its copy is a duplicate that publishes nothing.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = { ...fixture, expect: 'partial', cost: 1 };

interface Broker {
  publish(value: unknown): Promise<void>;
}

export default async function onPayment({ id, account, amount }: typeof fixture.message, broker: Broker) {
  const paid = await sql.begin(async tx => {
    const mark = await tx`INSERT INTO processed (id) VALUES (${id}) ON CONFLICT DO NOTHING`;
    if (mark.count === 1) await tx`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
    return mark.count === 1;
  });
  if (paid) await broker.publish({ paid: amount, account });
}
