import { PGlite, type Transaction as PgliteTransaction } from '@electric-sql/pglite';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { pglite, postgresStore } from '../../src/stores/postgres/index.ts';
import { processOn } from './postgres-process.ts';

// It makes a whole cluster in WebAssembly, which a busy machine takes its time for.
const PGLITE_MS = 120_000;

describe('the Transaction of PGlite', () => {
  let db: PGlite;
  let process: (work: (tx: PgliteTransaction) => unknown) => Promise<{ status: string }>;
  beforeAll(async () => {
    db = await PGlite.create();
    await db.exec('CREATE TABLE ledger (note text NOT NULL)');
  }, PGLITE_MS);
  afterAll(() => db.close());
  beforeEach(async () => {
    await db.exec('TRUNCATE ledger');
    process = processOn(postgresStore(pglite(db)));
  });
  const ledger = async () =>
    (await db.query<{ note: string }>('SELECT note FROM ledger ORDER BY 1')).rows.map(r => r.note);

  test('has everything that it has: query, exec, sql', async () => {
    await process(async tx => {
      await tx.exec("INSERT INTO ledger VALUES ('a'); INSERT INTO ledger VALUES ('b')");
      await tx.sql`INSERT INTO ledger VALUES (${'c'})`;
      expect((await tx.query('SELECT $1::int AS n', [5])).rows).toEqual([{ n: 5 }]);
    });
    expect(await ledger()).toEqual(['a', 'b', 'c']);
  });

  test.each<[string, (tx: PgliteTransaction) => unknown]>([
    ['COMMIT', tx => tx.query('COMMIT')],
    ['exec COMMIT', tx => tx.exec('SELECT 1; COMMIT')],
    ['sql COMMIT', tx => tx.sql`COMMIT`],
    ['rollback()', async tx => tx.rollback()],
  ])('%s is refused', async (_, work) => {
    await expect(process(work)).rejects.toMatchObject({ code: 'NT_TX_FORBIDDEN' });
    expect(await ledger()).toEqual([]);
  });

  test('is dead after the transaction', async () => {
    const kept: PgliteTransaction[] = [];
    await process(tx => void kept.push(tx));
    await expect(kept[0]!.query('SELECT 1')).rejects.toMatchObject({ code: 'NT_TX_CLOSED' });
    await expect(kept[0]!.exec('SELECT 1')).rejects.toMatchObject({ code: 'NT_TX_CLOSED' });
    expect(kept[0]!.closed).toBe(true);
  });
});
