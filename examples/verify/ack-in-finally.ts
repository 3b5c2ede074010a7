// The ack is in the finally block: it says that all went well, also when it did not.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = { ...fixture, manualAck: true, expect: 'lost', cost: 1 };

interface Delivery {
  ack(): Promise<void>;
}

export default async function onPayment({ id, account, amount }: typeof fixture.message, delivery: Delivery) {
  try {
    await sql.begin(async tx => {
      const mark = await tx`INSERT INTO processed (id) VALUES (${id}) ON CONFLICT DO NOTHING`;
      if (mark.count === 1) await tx`UPDATE wallet SET balance = balance + ${amount} WHERE id = ${account}`;
    });
  } finally {
    await delivery.ack();
  }
}
