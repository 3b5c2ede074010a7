// The inbox is right, and its rows are deleted before the last copy can come: then the copy is new again.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, prune: 'DELETE FROM processed', expect: 'double', cost: 2 };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await pool.query(
    `WITH mark AS (INSERT INTO processed VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
     UPDATE wallet SET balance = balance + $2 FROM mark WHERE wallet.id = $3`,
    [id, amount, account],
  );
}
