import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import postgres from 'postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox, isNevertwiceError } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { postgresJs, postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { endsWithin, until } from '../support/until.ts';
import { closed, freshName, processOn } from './postgres-process.ts';

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
  await database.pool({ max: 1 }).query('CREATE TABLE ledger (note text NOT NULL)');
});
afterAll(() => database.drop());

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
    const inbox = createInbox({ name: freshName(), store: postgresStore(postgresJs(sql)) });
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
    const own = postgres(database.url, { max: 2 });
    let cut = false;
    const consumer = createConsumer({
      name: freshName(),
      store: postgresStore(postgresJs(own)),
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
    await own.end({ timeout: 1 });
  });

  test.each([
    ['and then fails', () => Promise.reject(new Error('too late'))],
    ['and then returns', () => undefined],
    ['and then sends more', (tx: postgres.TransactionSql) => tx`INSERT INTO ledger VALUES ('late')`],
    [
      'and then opens a savepoint',
      (tx: postgres.TransactionSql) => tx.savepoint(s => s`INSERT INTO ledger VALUES ('late')`),
    ],
  ])(
    'C24: the server ends the session of a handler that waits %s: the process lives, nothing is kept',
    async (_, then) => {
      const impatient = postgres(database.url, { max: 2, connection: { idle_in_transaction_session_timeout: 50 } });
      const ended = async (pid: number) => (await sql`SELECT 1 FROM pg_stat_activity WHERE pid = ${pid}`).length === 0;
      let tries = 0;
      const name = freshName();
      const handle = async (tx: postgres.TransactionSql) => {
        const [row] = await tx`INSERT INTO ledger VALUES ('a') RETURNING pg_backend_pid() AS pid`;
        if (tries++ > 0) return;
        await until('the session has ended', () => ended(row!.pid));
        await then(tx);
      };
      const on = (client: postgres.Sql) => processOn(postgresStore(postgresJs(client)), 20_000, name);
      await expect(on(impatient)(handle)).rejects.toSatisfy(
        (error: unknown) => isNevertwiceError(error, 'NT_STORE_DOWN') || (error as Error).message === 'too late',
      );
      expect(await ledger()).toEqual([]);
      expect((await on(sql)(handle)).status).toBe('processed');
      expect(await ledger()).toEqual(['a']);
      await impatient.end({ timeout: 1 });
    },
  );

  test('C23: the time limit stops what runs on the server, and the message is fresh again', async () => {
    const limited = processOn(postgresStore(postgresJs(sql)), 200);
    const start = performance.now();
    await expect(limited(tx => tx`SELECT pg_sleep(20)`)).rejects.toMatchObject({ code: 'NT_HANDLER_TIMEOUT' });
    expect(performance.now() - start).toBeLessThan(10_000);
    const running =
      await sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(20)%' AND pid <> pg_backend_pid() AND state = 'active'`;
    expect(running).toHaveLength(0);
    expect((await limited(tx => tx`INSERT INTO ledger VALUES ('a')`)).status).toBe('processed');
    expect(await ledger()).toEqual(['a']);
  });

  test('a link that is half-open, with a server that takes no connection to cancel on, does not hold the lane for ever', async () => {
    const target = new URL(database.url);
    const sockets: Socket[] = [];
    const link = createServer(client => {
      const upstream = connect(Number(target.port), target.hostname);
      sockets.push(client, upstream);
      client.on('error', () => undefined).pipe(upstream);
      upstream.on('error', () => undefined).pipe(client);
    }).listen(0, '127.0.0.1');
    await once(link, 'listening');
    const url = new URL(database.url);
    url.port = String((link.address() as { port: number }).port);
    const through = postgres(url.href, { max: 1, onnotice: () => undefined });
    const store = postgresStore(postgresJs(through), { replyTimeoutMs: 200 });
    const [waiting, name] = [Promise.withResolvers<void>(), freshName()];
    const hanging = processOn(
      store,
      300,
      name,
    )(async tx => {
      await tx`INSERT INTO ledger VALUES ('a')`;
      waiting.resolve();
      await tx`SELECT pg_sleep(20)`;
    });
    hanging.catch(() => undefined);
    await waiting.promise;
    link.close();
    for (const socket of sockets) socket.pause();
    const error = await endsWithin(
      5_000,
      'it gives up',
      hanging.catch((e: unknown) => e),
    );
    expect(error).toMatchObject({ code: 'NT_STORE_DOWN', message: expect.stringContaining('did not answer ROLLBACK') });
    for (const socket of sockets) socket.destroy();
    await until('the server has rolled back', async () => {
      const again = processOn(postgresStore(postgresJs(sql)), 20_000, name)(tx => tx`INSERT INTO ledger VALUES ('b')`);
      return (await again.catch(() => undefined))?.status === 'processed';
    });
    expect(await ledger()).toEqual(['b']);
    await through.end({ timeout: 0 });
  });
});
