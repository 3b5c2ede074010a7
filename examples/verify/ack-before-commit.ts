// Acks inside of the transaction: whatever keeps the COMMIT from happening, the message is gone.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, manualAck: true, expect: 'lost', cost: 1 };

interface Delivery {
  ack(): Promise<void>;
}

export default async function onPayment({ id, account, amount }: typeof fixture.message, delivery: Delivery) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (mark.rowCount === 1)
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    await delivery.ack();
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}
