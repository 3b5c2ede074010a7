import { test } from 'vitest';
import { storeSuite } from '../../src/conformance/index.ts';
import { type SqliteDatabase, sqliteStore } from '../../src/stores/sqlite/index.ts';
import { clients, temporaryFile } from './sqlite-clients.ts';

for (const [client, open] of Object.entries(clients)) {
  storeSuite<SqliteDatabase>({
    test,
    name: `sqlite on ${client}`,
    create: async () => {
      const { path, remove } = temporaryFile();
      const opened = [open(path)];
      const another = () => {
        const database = open(path);
        opened.push(database);
        return database;
      };
      return {
        store: sqliteStore<SqliteDatabase>(opened[0]!),
        secondStore: () => sqliteStore<SqliteDatabase>(another()),
        useHandle: tx => tx.prepare('SELECT 1').all(),
        callersTransaction: async work => {
          const database = another();
          database.exec('BEGIN IMMEDIATE');
          try {
            const result = await work(database);
            database.exec('COMMIT');
            return result;
          } catch (error) {
            database.exec('ROLLBACK');
            throw error;
          }
        },
        close: async () => {
          for (const database of opened) database.close();
          remove();
        },
      };
    },
  });
}

storeSuite({
  test,
  name: 'sqlite by path',
  create: async () => {
    const { path, remove } = temporaryFile();
    const stores = [sqliteStore(path)];
    return {
      store: stores[0]!,
      secondStore: () => {
        stores.push(sqliteStore(path));
        return stores.at(-1)!;
      },
      useHandle: tx => tx.exec('SELECT 1'),
      close: async () => {
        for (const store of stores) await store.close();
        remove();
      },
    };
  },
});

storeSuite({
  test,
  name: 'sqlite in memory',
  create: async () => {
    const store = sqliteStore(':memory:');
    return { store, close: () => store.close() };
  },
});
