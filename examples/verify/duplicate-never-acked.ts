// Leaves a duplicate alone, and forgets to ack it: it comes again and again.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, manualAck: true, expect: 'stuck', cost: 1 };

interface Delivery {
  ack(): Promise<void>;
}

export default async function onPayment({ id, account, amount }: typeof fixture.message, delivery: Delivery) {
  const { rowCount } = await pool.query(
    `WITH mark AS (INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
     UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`,
    [id, amount, account],
  );
  if (rowCount === 0) return;
  await delivery.ack();
}
