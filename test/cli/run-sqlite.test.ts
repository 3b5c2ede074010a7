import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { walletSuite } from './run-wallet.ts';

walletSuite('SQLite', async folder => {
  const file = join(folder, 'wallet.db');
  // Opened anew each time: the file does not exist before the first run.
  const ask = (sql: string): readonly Record<string, unknown>[] => {
    if (!existsSync(file)) return [];
    const database = new DatabaseSync(file);
    try {
      database.exec('PRAGMA busy_timeout = 5000');
      const [, table = ''] = /FROM (\w+)/.exec(sql) ?? [];
      const there = database.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table);
      return there === undefined ? [] : database.prepare(sql).all();
    } finally {
      database.close();
    }
  };
  return {
    url: 'sqlite:wallet.db',
    balances: async () =>
      Object.fromEntries(ask('SELECT customer_id, balance_cents FROM wallet').map(row => Object.values(row))),
    done: async () => Number(ask('SELECT count(*) AS n FROM nevertwice_inbox')[0]?.n ?? 0),
    drop: async () => undefined,
  };
});
