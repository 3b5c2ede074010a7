import { once } from 'node:events';
import { PGlite, type Transaction as PgliteTransaction } from '@electric-sql/pglite';
import pg, { type Pool, type PoolClient } from 'pg';
import postgres from 'postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox, type Inbox, type TransactionalStore } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { pglite, postgresJs, postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

const forbidden = expect.objectContaining({ code: 'NT_TX_FORBIDDEN' });
const closed = expect.objectContaining({ code: 'NT_TX_CLOSED' });

let database: FreshDatabase;
let names = 0;
beforeAll(async () => {
  database = await freshDatabase();
  await database.pool({ max: 1 }).query('CREATE TABLE ledger (note text NOT NULL)');
});
afterAll(() => database.drop());

function processOn<Tx>(store: TransactionalStore<Tx>, timeoutMs = 20_000) {
  const inbox: Inbox<TransactionalStore<Tx>> = createInbox({ name: `pay ${names++}`, store, timeoutMs });
  return (work: (tx: Tx) => unknown) =>
    inbox.process({ id: 'm1', body: {} }, async (_, context) => {
      await work(context.tx);
    });
}

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
      const inbox = createInbox({ name: `pay ${names++}`, store: postgresStore(pool) });
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
      name: `pay ${names++}`,
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

describe('the TransactionSql of postgres.js', () => {
  let sql: postgres.Sql;
  let process: (work: (tx: postgres.TransactionSql) => unknown) => Promise<{ status: string }>;
  beforeAll(() => {
    sql = postgres(database.url, { max: 2, onnotice: () => undefined });
  });
  afterAll(() => sql.end({ timeout: 1 }));
  beforeEach(async () => {
    await sql`TRUNCATE ledger`;
    process = processOn(postgresStore(postgresJs(sql)));
  });
  const ledger = async () => (await sql`SELECT note FROM ledger ORDER BY 1`).map(row => row.note);

  test('has everything that it has: fragments, helpers, unsafe, cursors', async () => {
    await process(async tx => {
      const notes = ['a', 'b', 'c'].map(note => ({ note }));
      await tx`INSERT INTO ${tx('ledger')} ${tx(notes, 'note')}`;
      const [row] = await tx`SELECT count(*)::int AS n FROM ledger WHERE ${tx`note > ${'a'}`}`;
      expect(row).toEqual({ n: 2 });
      expect(await tx.unsafe('SELECT $1::int AS n', [5])).toEqual([{ n: 5 }]);
      const read: unknown[] = [];
      await tx`SELECT note FROM ledger ORDER BY 1`.cursor(2, rows => void read.push(...rows.map(r => r.note)));
      expect(read).toEqual(['a', 'b', 'c']);
    });
    expect(await ledger()).toEqual(['a', 'b', 'c']);
  });

  test.each<[string, (tx: postgres.TransactionSql) => unknown]>([
    ['COMMIT', tx => tx`COMMIT`],
    ['unsafe COMMIT', tx => tx.unsafe('SELECT 1; COMMIT')],
    ['COMMIT inside a savepoint', tx => tx.savepoint(inner => inner`COMMIT`)],
    ['two phases', tx => tx.prepare('x')],
  ])('%s is refused', async (_, work) => {
    await expect(process(work)).rejects.toMatchObject({ code: 'NT_TX_FORBIDDEN' });
    expect(await ledger()).toEqual([]);
  });

  test('its own savepoints undo a part, and so do those of the context, also through a handle that is kept', async () => {
    const inbox = createInbox({ name: `pay ${names++}`, store: postgresStore(postgresJs(sql)) });
    await inbox.process({ id: 'm1', body: {} }, async (_, { tx, savepoint }) => {
      const fails = async (on: postgres.TransactionSql) => {
        await on`INSERT INTO ledger VALUES ('undone')`;
        await on`INSERT INTO ledger VALUES (${null})`;
      };
      await expect(tx.savepoint(fails)).rejects.toMatchObject({ code: '23502' });
      await expect(savepoint(() => fails(tx))).rejects.toMatchObject({ code: '23502' });
      await savepoint(() => savepoint(async () => void (await tx`INSERT INTO ledger VALUES ('kept')`)));
    });
    expect(await ledger()).toEqual(['kept']);
  });

  test('is dead after the transaction, its savepoints too', async () => {
    const kept: postgres.TransactionSql[] = [];
    await process(async tx => {
      kept.push(tx);
      await tx.savepoint(async inner => void kept.push(inner));
    });
    for (const tx of kept) {
      expect(() => tx`INSERT INTO ledger VALUES ('late')`).toThrow(closed);
      expect(() => tx.unsafe("INSERT INTO ledger VALUES ('late')")).toThrow(closed);
    }
    expect(await ledger()).toEqual([]);
  });

  test('a connection that is lost under its own queries is an outage, which costs no try', async () => {
    let cut = false;
    const consumer = createConsumer({
      name: `pay ${names++}`,
      store: postgresStore(postgresJs(sql)),
      retries: { attempts: 1 },
      handle: async (_, { tx }) => {
        if (!cut) {
          cut = true;
          await tx`SELECT pg_terminate_backend(pg_backend_pid())`.catch(() => {
            throw new Error('could not save');
          });
        }
        await tx`INSERT INTO ledger VALUES ('a')`;
      },
    });
    const summary = await consumer.run({ source: memorySource([{ id: 'm1', body: {} }], { retryLater: false }) });
    expect(summary).toEqual({ processed: 1, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(await ledger()).toEqual(['a']);
  });

  test('C23: the time limit stops what runs on the server, and the message is fresh again', async () => {
    const limited = processOn(postgresStore(postgresJs(sql)), 200);
    const start = performance.now();
    await expect(limited(tx => tx`SELECT pg_sleep(20)`)).rejects.toMatchObject({ code: 'NT_HANDLER_TIMEOUT' });
    expect(performance.now() - start).toBeLessThan(10_000);
    const running =
      await sql`SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(20)%' AND pid <> pg_backend_pid() AND state = 'active'`;
    expect(running).toHaveLength(0);
    expect((await limited(tx => tx`INSERT INTO ledger VALUES ('a')`)).status).toBe('processed');
    expect(await ledger()).toEqual(['a']);
  });
});

describe('the Transaction of PGlite', () => {
  let db: PGlite;
  let process: (work: (tx: PgliteTransaction) => unknown) => Promise<{ status: string }>;
  beforeAll(async () => {
    db = await PGlite.create();
    await db.exec('CREATE TABLE ledger (note text NOT NULL)');
  });
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
