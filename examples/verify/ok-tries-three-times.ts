// A cut connection is tried again, and what fails three times goes back to the broker: the database may be away for longer.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
pool.on('error', () => undefined);

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  for (let attempt = 1; attempt <= 3; attempt++) {
    try {
      await pool.query(
        `WITH mark AS (INSERT INTO processed VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
         UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`,
        [id, amount, account],
      );
      return;
    } catch (error) {
      if (attempt === 3) throw error;
    }
  }
}
