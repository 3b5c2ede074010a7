// The savepoint undoes only the mark that failed, the effect is skipped with it, and all of the rest is one transaction.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  client.once('error', () => undefined);
  try {
    await client.query('BEGIN');
    await client.query('SAVEPOINT mark');
    try {
      await client.query('INSERT INTO processed (id) VALUES ($1)', [id]);
      await client.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
    } catch (error) {
      if ((error as { code?: string }).code !== '23505') throw error;
      await client.query('ROLLBACK TO SAVEPOINT mark');
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
