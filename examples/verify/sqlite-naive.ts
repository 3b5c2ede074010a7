// No deduplication at all: every copy of the message is another payment.
import { DatabaseSync } from 'node:sqlite';
import { sqliteFixture } from './sqlite-fixture.ts';

const database = new DatabaseSync(process.env.DATABASE_FILE ?? ':memory:', { timeout: 5_000 });

export const verify = { ...sqliteFixture, expect: 'double', cost: 1 };

export default function onPayment({ account, amount }: typeof verify.message) {
  database.prepare('UPDATE wallet SET balance = balance + ? WHERE id = ?').run(amount, account);
}
