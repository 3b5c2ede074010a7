// One cut connection is tried again; while the database is away all three tries fail, and the message is acked all the same.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
pool.on('error', () => undefined);

export const verify = { ...fixture, expect: 'lost', cost: 1 };

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
      console.error(`attempt ${attempt} failed`, error);
    }
  }
}
