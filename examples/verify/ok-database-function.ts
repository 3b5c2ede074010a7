// One call of a function in the database is one statement: what it marks and what it books commit together.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `${fixture.schema}
    CREATE FUNCTION pay(message text, account text, amount int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO processed (id) VALUES (message) ON CONFLICT DO NOTHING;
      IF FOUND THEN UPDATE wallet SET balance = balance + amount WHERE id = account; END IF;
    END $$;`,
  expect: 'once',
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await pool.query('SELECT pay($1, $2, $3)', [id, account, amount]);
}
