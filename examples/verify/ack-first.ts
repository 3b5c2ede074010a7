// Acks and then works: what dies after the ack never comes again.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, manualAck: true, expect: 'lost', cost: 1 };

interface Delivery {
  ack(): Promise<void>;
}

export default async function onPayment({ id, account, amount }: typeof fixture.message, delivery: Delivery) {
  await delivery.ack();
  await pool.query(
    `WITH mark AS (INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
     UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`,
    [id, amount, account],
  );
}
