// Looks before its transaction begins: two processes both find nothing, and OR IGNORE keeps quiet about the second mark.
import { DatabaseSync } from 'node:sqlite';
import { sqliteFixture } from './sqlite-fixture.ts';

const database = new DatabaseSync(process.env.DATABASE_FILE ?? ':memory:', { timeout: 5_000 });

export const verify = { ...sqliteFixture, expect: 'double', cost: 1 };

export default function onPayment({ id, account, amount }: typeof verify.message) {
  const seen = database.prepare('SELECT 1 FROM processed WHERE id = ?').get(id);
  if (seen !== undefined) return;
  database.exec('BEGIN IMMEDIATE');
  try {
    database.prepare('UPDATE wallet SET balance = balance + ? WHERE id = ?').run(amount, account);
    database.prepare('INSERT OR IGNORE INTO processed (id) VALUES (?)').run(id);
    database.exec('COMMIT');
  } catch (error) {
    database.exec('ROLLBACK');
    throw error;
  }
}
