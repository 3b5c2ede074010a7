// Only an open order can be paid, and paying it is what closes it, in one statement: a copy finds nothing to pay.
import { Pool } from 'pg';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  message: { id: 'm1', order: 'o1' },
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE orders (id text PRIMARY KEY, account text NOT NULL, total int NOT NULL, status text NOT NULL);`,
  seed: `INSERT INTO wallet VALUES ('alice', 100); INSERT INTO orders VALUES ('o1', 'alice', 30, 'open')`,
  expect: 'once',
};

export default async function onPaid(message: typeof verify.message) {
  await pool.query(
    `WITH paid AS (UPDATE orders SET status = 'paid' WHERE id = $1 AND status = 'open' RETURNING account, total)
     UPDATE wallet SET balance = balance - paid.total FROM paid WHERE wallet.id = paid.account`,
    [message.order],
  );
}
