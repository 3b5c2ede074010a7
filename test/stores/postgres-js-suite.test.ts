import postgres from 'postgres';
import { afterAll, beforeAll, test } from 'vitest';
import { storeSuite } from '../../src/conformance/index.ts';
import { postgresJs, postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.drop());

storeSuite<postgres.TransactionSql>({
  test,
  name: 'postgres.js',
  create: async () => {
    const opened = [connect()];
    const another = () => opened[opened.push(connect()) - 1]!;
    return {
      store: postgresStore(postgresJs(opened[0]!)),
      secondStore: () => postgresStore(postgresJs(another())),
      useHandle: tx => tx`SELECT 1`,
      callersTransaction: work => another().begin(work) as Promise<any>,
      close: async () => {
        await Promise.all(opened.map(sql => sql.end()));
      },
    };
  },
});

function connect(): postgres.Sql {
  return postgres(database.url, { max: 4, onnotice: () => undefined });
}
