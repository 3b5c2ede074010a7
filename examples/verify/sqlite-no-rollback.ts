// An error leaves the transaction open: its lock keeps everybody out, and the next delivery cannot begin in it.
import { DatabaseSync } from 'node:sqlite';
import { sqliteFixture } from './sqlite-fixture.ts';

const database = new DatabaseSync(process.env.DATABASE_FILE ?? ':memory:', { timeout: 5_000 });

export const verify = { ...sqliteFixture, expect: 'poisoned', cost: 1 };

export default function onPayment({ id, account, amount }: typeof verify.message) {
  database.exec('BEGIN');
  const seen = database.prepare('SELECT 1 FROM processed WHERE id = ?').get(id);
  if (seen === undefined) {
    database.prepare('INSERT INTO processed (id) VALUES (?)').run(id);
    database.prepare('UPDATE wallet SET balance = balance + ? WHERE id = ?').run(amount, account);
  }
  database.exec('COMMIT');
}
