// Throws on a version that has moved on, without a ROLLBACK: the redelivery gets the connection, sees its own mark, and commits that.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  messages: [fixture.message, { id: 'm2', account: 'alice', amount: 7 }],
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL, version int NOT NULL DEFAULT 1);
    CREATE TABLE processed (id text PRIMARY KEY);`,
  seed: fixture.seed.replace('wallet', 'wallet (id, balance)'),
  expect: 'lost',
  cost: 1,
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const mark = await client.query('INSERT INTO processed (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (mark.rowCount === 1) {
      const { rows } = await client.query('SELECT balance, version FROM wallet WHERE id = $1', [account]);
      const update = await client.query(
        'UPDATE wallet SET balance = $1, version = version + 1 WHERE id = $2 AND version = $3',
        [rows[0].balance + amount, account, rows[0].version],
      );
      if (update.rowCount === 0) throw new Error('somebody else was faster');
    }
    await client.query('COMMIT');
  } finally {
    client.release();
  }
}
