// A lease that runs out, and a token that rises with each owner: the effect's own statement looks whether it is still the highest.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE lease (
      id text PRIMARY KEY, token int NOT NULL DEFAULT 1, until timestamptz NOT NULL, done boolean NOT NULL DEFAULT false);`,
  expire: 'UPDATE lease SET until = now()',
  ignore: ['lease.token'],
  expect: 'once',
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  const lease = await pool.query(
    `INSERT INTO lease (id, until) VALUES ($1, now() + interval '1 minute')
     ON CONFLICT (id) DO UPDATE SET token = lease.token + 1, until = excluded.until WHERE lease.until <= now() OR lease.done
     RETURNING token, done`,
    [id],
  );
  if (lease.rowCount === 0) throw new Error('another consumer is at it');
  const { token, done } = lease.rows[0];
  if (done) return;
  const paid = await pool.query(
    `WITH mine AS (UPDATE lease SET done = true WHERE id = $1 AND token = $2 AND NOT done RETURNING id)
     UPDATE wallet SET balance = balance + $3 FROM mine WHERE wallet.id = $4`,
    [id, token, amount, account],
  );
  if (paid.rowCount === 0) throw new Error('another consumer has taken it over');
}
