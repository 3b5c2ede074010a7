import { once } from 'node:events';
import pg, { type Pool, type PoolClient } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { closed, forbidden, freshName, processOn } from './postgres-process.ts';

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
  await database.pool({ max: 1 }).query('CREATE TABLE ledger (note text NOT NULL)');
});
afterAll(() => database.drop());

describe.each([{ pipeline: true }, { pipeline: false }])(
  'the client of a pg pool, pipeline $pipeline',
  ({ pipeline }) => {
    let pool: Pool;
    let process: (work: (tx: PoolClient) => unknown) => Promise<{ status: string }>;
    beforeAll(() => {
      pool = database.pool({ pipeline, max: 2 });
    });
    beforeEach(async () => {
      await pool.query('TRUNCATE ledger');
      process = processOn(postgresStore(pool));
    });
    const ledger = async () => (await pool.query('SELECT note FROM ledger ORDER BY 1')).rows.map(row => row.note);

    test('is still that client for whoever looks: its class, its methods, its properties', async () => {
      await process(async tx => {
        expect(tx).toBeInstanceOf(pg.Client);
        expect(tx.escapeIdentifier('a"b')).toBe('"a""b"');
        expect(tx.database).toBe(new URL(database.url).pathname.slice(1));
        expect((await tx.query({ text: 'SELECT $1::int AS n', values: [5], rowMode: 'array' })).rows).toEqual([[5]]);
      });
    });

    test.each(['release', 'end', 'connect'] as const)('%s() is refused, and the transaction goes on', async method => {
      await process(async tx => {
        expect(() => (tx[method] as () => unknown)()).toThrow(forbidden);
        await tx.query("INSERT INTO ledger VALUES ('a')");
      });
      expect(await ledger()).toEqual(['a']);
    });

    test('callbacks are called, with results and with errors, and are waited for before the commit', async () => {
      const heard: unknown[] = [];
      const hear = (error: unknown, result?: { rows: unknown[] }) => heard.push(error ?? result?.rows);
      await process(tx => {
        tx.query('SELECT 1 AS n', hear);
        tx.query('SELECT $1::int AS n', [2], hear);
        tx.query({ text: 'SELECT 3 AS n', callback: hear } as never);
        tx.query("INSERT INTO ledger VALUES ('a')", hear);
      });
      expect(heard).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }], []]);
      expect(await ledger()).toEqual(['a']);

      await process(tx => tx.query('SELECT 1', hear)).catch(() => undefined);
      heard.length = 0;
      await processOn(postgresStore(pool))(tx => tx.query('COMMIT', hear)).catch(() => undefined);
      expect(heard).toEqual([forbidden]);
    });

    test('a failing statement whose error went to a callback fails the message', async () => {
      const failing = process(
        tx => new Promise<void>(resolve => tx.query('SELECT * FROM no_such_table', () => resolve())),
      );
      await expect(failing).rejects.toMatchObject({ code: 'NT_TX_ABORTED', message: expect.stringContaining('42P01') });
    });

    test('query objects such as cursors and streams read their rows in the transaction', async () => {
      const rows: unknown[] = [];
      await process(async tx => {
        await tx.query("INSERT INTO ledger VALUES ('a'), ('b')");
        const query = tx.query(new pg.Query('SELECT note FROM ledger ORDER BY 1'));
        query.on('row', row => rows.push(row));
        await once(query, 'end');
      });
      expect(rows).toEqual([{ note: 'a' }, { note: 'b' }]);
    });

    test('query objects cannot end the transaction, nor be used after it', async () => {
      const kept: PoolClient[] = [];
      await process(tx => {
        kept.push(tx);
        expect(() => tx.query(new pg.Query('COMMIT'))).toThrow(forbidden);
        return tx.query("INSERT INTO ledger VALUES ('a')");
      });
      expect(() => kept[0]!.query(new pg.Query('SELECT 1'))).toThrow(closed);
      expect(await ledger()).toEqual(['a']);
    });

    test('savepoints of one transaction that overlap are refused: undoing one would undo the other', async () => {
      const inbox = createInbox({ name: freshName(), store: postgresStore(pool) });
      const note = (text: string) => (c: { sql: any }) => c.sql`INSERT INTO ledger VALUES (${text})`;
      const results: PromiseSettledResult<unknown>[] = [];
      await inbox.process({ id: 'm1', body: {} }, async (_, c) => {
        const side = [
          c.savepoint(async () => {
            await note('first')(c);
            throw new Error('undo me');
          }),
          c.savepoint(() => note('second')(c)),
        ];
        results.push(...(await Promise.allSettled(side)));
        await c.savepoint(() => c.savepoint(() => note('nested')(c)));
      });
      expect(results).toEqual([
        { status: 'rejected', reason: expect.objectContaining({ message: 'undo me' }) },
        { status: 'rejected', reason: forbidden },
      ]);
      expect(await ledger()).toEqual(['nested']);
    });
  },
);

describe('overlapping handlers', () => {
  test('query objects are refused by name: rows that come as they are read would mix', async () => {
    const errors: unknown[] = [];
    const consumer = createConsumer({
      name: freshName(),
      store: postgresStore(database.pool({ max: 2 })),
      overlap: 'by-key',
      handle: async (_, { tx }) => {
        try {
          tx.query(new pg.Query('SELECT 1'));
        } catch (error) {
          errors.push(error);
        }
        await tx.query('SELECT 1');
      },
    });
    await consumer.run({ source: memorySource([{ id: 'm1', body: {} }]) });
    expect(errors).toEqual([
      expect.objectContaining({ code: 'NT_TX_FORBIDDEN', message: expect.stringContaining('cursor') }),
    ]);
  });
});
