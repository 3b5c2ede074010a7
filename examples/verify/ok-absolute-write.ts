// The message says what the balance is, not by how much it changes: written twice it is the same.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = { ...fixture, message: { id: 'm1', account: 'alice', balance: 105 }, expect: 'once' };

export default async function onBalance(message: typeof verify.message) {
  await pool.query('UPDATE wallet SET balance = $1 WHERE id = $2', [message.balance, message.account]);
}
