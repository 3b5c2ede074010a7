// BEGIN IMMEDIATE lets one process in at a time, and what it marks and does commits together.
import { DatabaseSync } from 'node:sqlite';
import { sqliteFixture } from './sqlite-fixture.ts';

// Another process may hold the lock for a while: then it is waited for.
const database = new DatabaseSync(process.env.DATABASE_FILE ?? ':memory:', { timeout: 5_000 });

export const verify = { ...sqliteFixture, expect: 'once' };

export default function onPayment({ id, account, amount }: typeof verify.message) {
  database.exec('BEGIN IMMEDIATE');
  try {
    const mark = database.prepare('INSERT INTO processed (id) VALUES (?) ON CONFLICT DO NOTHING').run(id);
    if (mark.changes === 1) {
      database.prepare('UPDATE wallet SET balance = balance + ? WHERE id = ?').run(amount, account);
    }
    database.exec('COMMIT');
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}
