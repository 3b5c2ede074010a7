// Acks by hand, and only once the transaction has committed: what is not committed is not acked.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, manualAck: true, expect: 'once' };

export default async function onPayment(
  { id, account, amount }: typeof fixture.message,
  broker: { ack(): Promise<void>; nack(): Promise<void> },
) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (mark.rowCount === 1) {
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    }
    await client.query('COMMIT');
  } catch {
    await client.query('ROLLBACK').catch(() => undefined);
    return await broker.nack();
  } finally {
    client.release();
  }
  await broker.ack();
}
