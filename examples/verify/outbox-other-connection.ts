// The outbox row is written through another connection: it stays when the transaction that it speaks of rolls back.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `${fixture.schema} CREATE TABLE outbox (id serial PRIMARY KEY, topic text NOT NULL, payload jsonb NOT NULL);`,
  expect: 'double',
  cost: 1,
};

const emit = (topic: string, payload: object) =>
  pool.query('INSERT INTO outbox (topic, payload) VALUES ($1, $2)', [topic, payload]);

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (mark.rowCount === 1) {
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
      await emit('paid', { account, amount });
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
