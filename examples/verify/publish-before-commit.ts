// Publishes before the COMMIT: what dies in between rolls back, and publishes again.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'double', cost: 1 };

interface Broker {
  publish(value: unknown): Promise<void>;
}

export default async function onPayment({ id, account, amount }: typeof fixture.message, broker: Broker) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (mark.rowCount === 1) {
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
      await broker.publish({ paid: amount, account });
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
