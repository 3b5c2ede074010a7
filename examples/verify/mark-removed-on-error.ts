// Takes the mark back when the effect fails: but an error says that no answer came, not that nothing was done.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  // With crashes it loses messages as well, as mark-first.ts does.
  bounds: { crashes: 0 },
  expect: 'double',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  try {
    const mark = await pool.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (mark.rowCount === 0) return;
    await pool.query('UPDATE wallet SET balance = balance + $1 WHERE id = $2', [amount, account]);
  } catch (error) {
    await pool.query('DELETE FROM processed WHERE id = $1', [id]);
    throw error;
  }
}
