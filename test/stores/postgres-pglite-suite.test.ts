import { PGlite, type Transaction } from '@electric-sql/pglite';
import { afterAll, beforeAll, test } from 'vitest';
import { storeSuite } from '../../src/conformance/index.ts';
import { pglite, postgresStore } from '../../src/stores/postgres/index.ts';

let db: PGlite;
// It makes a whole cluster in WebAssembly, which a busy machine takes its time for.
beforeAll(async () => {
  db = await PGlite.create();
}, 120_000);
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
