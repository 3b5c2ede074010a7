import type { Payment } from './payment.ts';

/**
 * The wallet of one service. A credit is one row, and the trigger moves the balance in the same statement: so even the
 * broken services have an atomic effect, and the rows tell how often each payment had it.
 */
export const WALLET_TABLES = `
PRAGMA journal_mode = WAL;
CREATE TABLE wallet (customer TEXT PRIMARY KEY, balance_cents INTEGER NOT NULL);
CREATE TABLE credits (payment TEXT NOT NULL, customer TEXT NOT NULL, cents INTEGER NOT NULL);
CREATE TRIGGER credit AFTER INSERT ON credits BEGIN
  INSERT INTO wallet (customer, balance_cents) VALUES (NEW.customer, NEW.cents)
  ON CONFLICT (customer) DO UPDATE SET balance_cents = balance_cents + NEW.cents;
END;
CREATE TABLE processed (id TEXT PRIMARY KEY);
`;

// Loaded when it is used: on older versions of Node.js it warns, also where only the help is asked for.
const open = (file: string) => new (process.getBuiltinModule('node:sqlite').DatabaseSync)(file);

export function createWallet(file: string): void {
  const database = open(file);
  database.exec(WALLET_TABLES);
  database.close();
}

/** What a hand-written service does with its database. */
export interface Wallet {
  credit(payment: Payment): void;
  knows(id: string): boolean;
  /** False when the id was recorded before. */
  record(id: string): boolean;
}

export function openWallet(file: string): Wallet {
  const database = open(file);
  database.exec('PRAGMA busy_timeout = 10000');
  const credit = database.prepare('INSERT INTO credits (payment, customer, cents) VALUES (?, ?, ?)');
  const knows = database.prepare('SELECT 1 FROM processed WHERE id = ?');
  const record = database.prepare('INSERT INTO processed (id) VALUES (?) ON CONFLICT DO NOTHING');
  return {
    credit({ id, customer, cents }) {
      credit.run(id, customer, cents);
    },
    knows: id => knows.get(id) !== undefined,
    record: id => record.run(id).changes === 1,
  };
}

/** What is in a wallet in the end. */
export interface Balances {
  /** Cents by customer. */
  readonly wallet: ReadonlyMap<string, number>;
  /** How often each payment was credited. */
  readonly credits: ReadonlyMap<string, number>;
}

export function readWallet(file: string): Balances {
  const database = open(file);
  const rows = (sql: string) => database.prepare(sql).all() as { readonly name: string; readonly value: number }[];
  const byName = (sql: string) => new Map(rows(sql).map(({ name, value }) => [name, value] as const));
  const balances = {
    wallet: byName('SELECT customer AS name, balance_cents AS value FROM wallet'),
    credits: byName('SELECT payment AS name, count(*) AS value FROM credits GROUP BY payment'),
  };
  database.close();
  return balances;
}
