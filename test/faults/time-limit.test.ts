import type { Pool, PoolClient } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Consumer, createConsumer, isNevertwiceError } from '../../src/index.ts';
import { memoryBroker, memorySource } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { endsWithin, until } from '../support/until.ts';

// What the zombie would need if nobody stopped it; the tests end long before.
const LONG_SECONDS = 60;

describe.each([{ pipeline: true }, { pipeline: false }])('C23: pg with pipeline $pipeline', ({ pipeline }) => {
  let database: FreshDatabase;
  let admin: Pool;
  let consumer: Consumer;
  let running: Promise<unknown>;

  beforeEach(async () => {
    database = await freshDatabase();
    admin = database.pool();
    await admin.query(
      `CREATE TABLE wallet (id text PRIMARY KEY, cents int NOT NULL); INSERT INTO wallet VALUES ('a', 0)`,
    );
  });
  afterEach(async () => {
    await consumer.stop({ withinMs: 0 });
    await running;
    await database.drop();
  });

  const balance = async () => (await admin.query('SELECT cents FROM wallet')).rows[0].cents;
  const openTransactions = async () => {
    const { rows } = await admin.query(`SELECT pid, query FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`);
    return rows;
  };
  const credit = (tx: PoolClient) => tx.query("UPDATE wallet SET cents = cents + 500 WHERE id = 'a'");

  /** Waits in the server for long, whatever the signal says; then writes through both handles. */
  async function zombie(tx: PoolClient, sql: (text: TemplateStringsArray) => Promise<unknown>): Promise<unknown[]> {
    const end = await tx.query('SELECT pg_sleep($1)', [LONG_SECONDS]).catch(error => error);
    const late = [await credit(tx).catch(error => error), await sql`UPDATE wallet SET cents = 7`.catch(error => error)];
    return [end, ...late];
  }

  test('the statement is cancelled on the server, the claim is free for the next try, the late write is refused', async () => {
    const broker = memoryBroker({ partitions: 1 });
    const signals: AbortSignal[] = [];
    const left: Promise<unknown[]>[] = [];
    let openAtSecondTry: unknown[] | undefined;
    consumer = createConsumer({
      name: 'pay',
      store: postgresStore(database.pool({ pipeline })),
      source: broker.source(),
      timeoutMs: 200,
      retries: { minMs: 1 },
      async handle(_, { tx, sql, signal }) {
        signals.push(signal);
        await credit(tx);
        if (signals.length > 1) {
          openAtSecondTry = await openTransactions();
          return;
        }
        left.push(zombie(tx, sql));
        await left[0];
      },
    });
    broker.send({ id: 'm1', body: {} });
    running = consumer.run();
    await endsWithin(10_000, 'the message is processed', broker.drained('pay'));

    expect(signals).toHaveLength(2);
    expect(signals[0]!.reason).toMatchObject({ code: 'NT_HANDLER_TIMEOUT' });
    expect(signals[1]!.aborted).toBe(false);
    // The second try's own transaction is the only one: the zombie's is closed before the claim changes hands.
    expect(openAtSecondTry).toHaveLength(1);
    const [end, ...late] = (await endsWithin(5_000, 'the zombie ends', left[0]!)) as [{ code: string }, ...unknown[]];
    expect(end.code).toBe('57014');
    expect(late.map(error => isNevertwiceError(error, 'NT_TX_CLOSED'))).toEqual([true, true]);
    expect(await balance()).toBe(500);
    expect(consumer.summary).toEqual({ processed: 1, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 1 });
  });

  test('a handler that hangs in its own code loses its transaction all the same, and its write when it wakes is refused', async () => {
    const broker = memoryBroker({ partitions: 1 });
    const wake = Promise.withResolvers<void>();
    let late: Promise<unknown> | undefined;
    let tries = 0;
    consumer = createConsumer({
      name: 'pay',
      store: postgresStore(database.pool({ pipeline })),
      source: broker.source(),
      timeoutMs: 200,
      retries: { minMs: 1 },
      async handle(_, { tx }) {
        if (++tries > 1) return void (await credit(tx));
        await credit(tx);
        late = wake.promise.then(() => credit(tx)).catch(error => error);
        await late;
      },
    });
    broker.send({ id: 'm1', body: {} });
    running = consumer.run();
    await endsWithin(10_000, 'the message is processed', broker.drained('pay'));
    wake.resolve();
    expect(await late).toMatchObject({ code: 'NT_TX_CLOSED' });
    expect(await balance()).toBe(500);
    expect(consumer.summary.failed).toBe(1);
  });

  test('another process gets the claim as soon as the time is up', async () => {
    const broker = memoryBroker({ partitions: 1 });
    const timedOut = Promise.withResolvers<void>();
    consumer = createConsumer({
      name: 'pay',
      store: postgresStore(database.pool({ pipeline })),
      source: broker.source(),
      timeoutMs: 300,
      // One try here; the source gives it again after a second or so.
      retries: { attempts: 1 },
      async handle(_, { tx, sql, signal }) {
        await credit(tx);
        signal.addEventListener('abort', () => timedOut.resolve(), { once: true });
        await zombie(tx, sql);
      },
    });
    broker.send({ id: 'm1', body: {} });
    running = consumer.run();
    await endsWithin(10_000, 'the time is up', timedOut.promise);
    const other = createConsumer({
      name: 'pay',
      store: postgresStore(database.pool({ pipeline })),
      source: memorySource([{ id: 'm1', body: {} }]),
      handle: (_, { tx }) => credit(tx),
    });
    const since = performance.now();
    expect(await other.run()).toMatchObject({ processed: 1, duplicates: 0 });
    expect(performance.now() - since).toBeLessThan(5_000);
    await endsWithin(10_000, 'the copy is a duplicate', broker.drained('pay'));
    expect(consumer.summary).toMatchObject({ processed: 0, duplicates: 1, failed: 1 });
    expect(await balance()).toBe(500);
  });
});

test('C23: handlers that overlap: the one that is late takes the transaction with it, and all are done once after', async () => {
  const database = await freshDatabase();
  const admin = database.pool();
  await admin.query('CREATE TABLE ledger (message_id text NOT NULL)');
  const broker = memoryBroker({ partitions: 1 });
  for (const id of ['m1', 'm2', 'm3']) broker.send({ id, key: id, body: {} });
  let slow = true;
  const consumer = createConsumer({
    name: 'pay',
    store: postgresStore(database.pool()),
    source: broker.source(),
    overlap: 'by-key',
    timeoutMs: 300,
    retries: { minMs: 1 },
    async handle(message, { sql }) {
      await sql`INSERT INTO ledger VALUES (${message.id})`;
      if (message.id !== 'm2' || !slow) return;
      slow = false;
      await sql`SELECT pg_sleep(${LONG_SECONDS}::int)`;
    },
  });
  const running = consumer.run();
  await endsWithin(10_000, 'all are processed', broker.drained('pay'));
  await until('nothing sleeps on the server', async () => {
    const { rows } = await admin.query(
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(%' AND state = 'active' AND pid <> pg_backend_pid()",
    );
    return rows.length === 0;
  });
  expect((await admin.query('SELECT message_id FROM ledger ORDER BY 1')).rows.map(row => row.message_id)).toEqual([
    'm1',
    'm2',
    'm3',
  ]);
  expect(consumer.summary).toMatchObject({ processed: 3, deadLetters: 0 });
  await consumer.stop();
  await running;
  await database.drop();
});
