// The effect is a row with the message's own id as its key, and the balance is the sum of such rows: there is nothing to mark.
import { Pool } from 'pg';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  message: { id: 'm1', account: 'alice', amount: 5 },
  schema: `
    CREATE TABLE ledger (message_id text PRIMARY KEY, account text NOT NULL, amount int NOT NULL);
    CREATE VIEW wallet AS SELECT account, sum(amount) AS balance FROM ledger GROUP BY account;`,
  seed: `INSERT INTO ledger VALUES ('m0', 'alice', 100)`,
  expect: 'once',
};

export default async function onPayment(message: typeof verify.message) {
  await pool.query('INSERT INTO ledger VALUES ($1, $2, $3) ON CONFLICT (message_id) DO NOTHING', [
    message.id,
    message.account,
    message.amount,
  ]);
}
