// One call of exec, but two statements: without BEGIN each of them commits by itself.
import { DatabaseSync } from 'node:sqlite';
import { sqliteFixture } from './sqlite-fixture.ts';

const database = new DatabaseSync(process.env.DATABASE_FILE ?? ':memory:', { timeout: 5_000 });

export const verify = { ...sqliteFixture, expect: 'double', cost: 1 };

export default function onPayment({ id, account, amount }: typeof verify.message) {
  const seen = database.prepare('SELECT 1 FROM processed WHERE id = ?').get(id);
  if (seen !== undefined) return;
  database.exec(`
    UPDATE wallet SET balance = balance + ${amount} WHERE id = '${account}';
    INSERT INTO processed (id) VALUES ('${id}');`);
}
