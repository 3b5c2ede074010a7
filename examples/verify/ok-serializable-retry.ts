// No unique key, but SERIALIZABLE: of two copies that both saw nothing one is refused, and does all of it again.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: fixture.schema.replace('id text PRIMARY KEY)', 'id text)'),
  expect: 'once',
};

export default async function onPayment(message: typeof fixture.message) {
  for (;;) {
    try {
      return await pay(message);
    } catch (error) {
      if ((error as { code?: string }).code !== '40001') throw error;
    }
  }
}

async function pay({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE');
    const seen = await client.query('SELECT 1 FROM processed WHERE id = $1', [id]);
    if (seen.rowCount === 0) {
      await client.query('INSERT INTO processed (id) VALUES ($1)', [id]);
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
