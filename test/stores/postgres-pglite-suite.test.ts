import { PGlite, type Transaction } from '@electric-sql/pglite';
import { afterAll, beforeAll, test } from 'vitest';
import { storeSuite } from '../../src/conformance/index.ts';
import { pglite, postgresStore } from '../../src/stores/postgres/index.ts';

let db: PGlite;
beforeAll(async () => {
  db = await PGlite.create();
});
afterAll(() => db.close());

// One connection, so every second store shares it: copies wait for each other in the client's own queue.
storeSuite<Transaction>({
  test,
  name: 'PGlite',
  create: async () => ({
    store: postgresStore(pglite(db)),
    secondStore: () => postgresStore(pglite(db)),
    useHandle: tx => tx.query('SELECT 1'),
    callersTransaction: work => db.transaction(work),
    close: async () => undefined,
  }),
});
