// Marks the id as done and then does it: what dies in between is lost.
import { DatabaseSync } from 'node:sqlite';
import { sqliteFixture } from './sqlite-fixture.ts';

const database = new DatabaseSync(process.env.DATABASE_FILE ?? ':memory:', { timeout: 5_000 });

export const verify = { ...sqliteFixture, expect: 'lost', cost: 1 };

export default function onPayment({ id, account, amount }: typeof verify.message) {
  const mark = database.prepare('INSERT INTO processed (id) VALUES (?) ON CONFLICT DO NOTHING').run(id);
  if (mark.changes === 0) return;
  database.prepare('UPDATE wallet SET balance = balance + ? WHERE id = ?').run(amount, account);
}
