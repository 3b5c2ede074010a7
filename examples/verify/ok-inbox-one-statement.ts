// The mark and the effect are one statement: the database carries out both or neither, without a transaction of our own.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment(message: typeof fixture.message) {
  await pool.query(
    `WITH mark AS (INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
     UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`,
    [message.id, message.amount, message.account],
  );
}
