// Inserts if it is not there, in one statement, and believes that this is atomic: two at once both see that it is not there.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: 'CREATE TABLE ledger (message text NOT NULL, account text NOT NULL, amount int NOT NULL)',
  seed: '',
  expect: 'double',
  cost: 2,
};

export default async function onPayment(message: typeof fixture.message) {
  await pool.query(
    `INSERT INTO ledger (message, account, amount)
     SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE message = $1)`,
    [message.id, message.account, message.amount],
  );
}
