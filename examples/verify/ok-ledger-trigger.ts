// The trigger books in the statement that writes the row, and a second row of the same message is not written.
import { Pool } from 'pg';
import { fixture } from './fixture.ts';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export const verify = {
  ...fixture,
  schema: `
    CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);
    CREATE TABLE ledger (message_id text UNIQUE NOT NULL, account text NOT NULL, amount int NOT NULL);
    CREATE FUNCTION book() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      UPDATE wallet SET balance = balance + NEW.amount WHERE id = NEW.account;
      RETURN NULL;
    END $$;
    CREATE TRIGGER book AFTER INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION book();`,
  expect: 'once',
};

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await pool
    .query('INSERT INTO ledger (message_id, account, amount) VALUES ($1, $2, $3)', [id, account, amount])
    .catch(error => {
      // unique_violation: its row is there, and with it what the trigger did.
      if (error.code !== '23505') throw error;
    });
}
