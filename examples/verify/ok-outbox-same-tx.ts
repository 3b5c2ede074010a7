// What is to be sent is a row in the same transaction; a relay sends it later, as often as it takes.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `${fixture.schema}
    CREATE TABLE outbox (position bigint GENERATED ALWAYS AS IDENTITY, topic text NOT NULL, body jsonb NOT NULL);`,
  expect: 'once',
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (mark.rowCount === 1) {
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
      await client.query(`INSERT INTO outbox (topic, body) VALUES ('paid', $1)`, [{ account, amount }]);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
