import type { Pool } from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Consumer, createConsumer, type TransactionContext } from '../../src/index.ts';
import { type MemoryBroker, memoryBroker } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { endsWithin, until } from '../support/until.ts';
import { watched } from '../support/watched-source.ts';

const POOL = 5;

let database: FreshDatabase;
let admin: Pool;
let pool: Pool;
let broker: MemoryBroker;
let consumer: Consumer | undefined;
let running: Promise<unknown> | undefined;
let warnings: { code: string; message: string }[];
const onWarning = (warning: Error & { code?: string }) => {
  warnings.push({ code: warning.code ?? '', message: warning.message });
};

beforeEach(async () => {
  warnings = [];
  process.on('warning', onWarning);
  database = await freshDatabase();
  pool = database.pool({ max: POOL });
  admin = database.pool({ max: 1 });
  await admin.query('CREATE TABLE ledger (message_id text NOT NULL)');
  broker = memoryBroker({ partitions: POOL });
});
afterEach(async () => {
  await consumer?.stop({ withinMs: 0 });
  await running;
  consumer = undefined;
  process.removeListener('warning', onWarning);
  await database.drop();
});

function sendAll(): void {
  for (let i = 0; i < POOL; i++) broker.send({ id: `m${i}`, body: {}, partition: i });
}

/** Resolves for each of its callers once `size` of them have come, so that they all hold what they hold at once. */
function rendezvous(size: number): () => Promise<void> {
  const all = Promise.withResolvers<void>();
  let come = 0;
  return () => {
    if (++come === size) all.resolve();
    return all.promise;
  };
}

async function eachOnce(): Promise<void> {
  const { rows } = await admin.query('SELECT message_id FROM ledger ORDER BY message_id');
  expect(rows.map(row => row.message_id)).toEqual(Array.from({ length: POOL }, (_, i) => `m${i}`));
  expect(consumer!.summary).toMatchObject({ processed: POOL, duplicates: 0, deadLetters: 0 });
}

test('C21: five handlers hold the pool of five and each wants one more from it: the time limit frees them, all end once', async () => {
  const everybody = rendezvous(POOL);
  consumer = createConsumer({
    name: 'pay',
    store: postgresStore(pool),
    source: broker.source(),
    concurrency: POOL,
    timeoutMs: 300,
    async handle(message, { sql }) {
      await sql`INSERT INTO ledger VALUES (${message.id})`;
      if (message.attempt === 1) await everybody();
      const second = await pool.connect();
      try {
        await second.query('SELECT 1');
      } finally {
        second.release();
      }
    },
  });
  running = consumer.run();
  sendAll();
  await endsWithin(20_000, 'all are processed', broker.drained('pay'));
  // One that gives up is enough to let the others have their second connection.
  expect(consumer.summary.failed).toBeGreaterThanOrEqual(1);
  await eachOnce();
});

test('C21: the same through the store itself: the wait is bounded, the error names the pool, no attempt is spent', async () => {
  const store = postgresStore(pool, { acquireTimeoutMs: 200 });
  const everybody = rendezvous(POOL);
  const errors: Error[] = [];
  const attempts: number[] = [];
  consumer = createConsumer({
    name: 'pay',
    store,
    source: broker.source(),
    concurrency: POOL,
    async handle(message, { sql }: TransactionContext<unknown>) {
      attempts.push(message.attempt);
      await sql`INSERT INTO ledger VALUES (${message.id})`;
      if (attempts.length <= POOL) await everybody();
      await store
        .transaction((_, other) => other`SELECT 1`)
        .catch(error => {
          errors.push(error);
          throw error;
        });
    },
  });
  running = consumer.run();
  sendAll();
  await endsWithin(20_000, 'all are processed', broker.drained('pay'));
  expect(errors[0]).toMatchObject({ code: 'NT_STORE_DOWN', retryable: true });
  expect(errors[0]!.message).toContain('no connection within 200 ms (pool 5, in use 5)');
  expect(new Set(attempts)).toEqual(new Set([1]));
  expect(consumer.summary.failed).toBe(0);
  await eachOnce();
});

test('C21: somebody else holds the whole pool: the consumer pauses without running a handler and goes on by itself', async () => {
  const watch = watched(broker.source());
  let handled = 0;
  consumer = createConsumer({
    name: 'pay',
    store: postgresStore(pool, { acquireTimeoutMs: 200 }),
    source: watch.source,
    concurrency: 4,
    async handle(message, { sql }) {
      handled++;
      await sql`INSERT INTO ledger VALUES (${message.id})`;
    },
  });
  running = consumer.run();
  await until('every lane waits for messages', () => watch.receives === POOL);
  const held = await Promise.all(Array.from({ length: POOL }, () => pool.connect()));
  sendAll();
  const pause = 'no connection within 200 ms (pool 5, in use 5)';
  await until('it pauses', () =>
    warnings.some(({ code, message }) => code === 'NT_STORE_DOWN' && message.includes(pause)),
  );
  expect([handled, watch.settlements]).toEqual([0, []]);
  for (const client of held) client.release();
  await endsWithin(20_000, 'all are processed', broker.drained('pay'));
  expect(consumer.summary.failed).toBe(0);
  await eachOnce();
});

test('C21: a message takes one connection, so four handlers at once hold four', async () => {
  const everybody = rendezvous(4);
  const inUse: number[] = [];
  consumer = createConsumer({
    name: 'pay',
    store: postgresStore(pool),
    source: broker.source(),
    concurrency: 4,
    async handle(message, { sql }) {
      await sql`INSERT INTO ledger VALUES (${message.id})`;
      await everybody();
      inUse.push(pool.totalCount - pool.idleCount);
    },
  });
  running = consumer.run();
  sendAll();
  await endsWithin(20_000, 'all are processed', broker.drained('pay'));
  expect(inUse[0]).toBe(4);
  await eachOnce();
});

test.each([
  { concurrency: 5, max: 5, warned: true },
  { concurrency: 20, max: 10, warned: true },
  { concurrency: 4, max: 5, warned: false },
  { concurrency: undefined, max: 2, warned: false },
])(
  'C21: concurrency $concurrency in a pool of $max warns at the start: $warned',
  async ({ concurrency, max, warned }) => {
    const watch = watched(broker.source());
    consumer = createConsumer({
      name: 'pay',
      store: postgresStore(database.pool({ max })),
      source: watch.source,
      handle: () => undefined,
      ...(concurrency === undefined ? {} : { concurrency }),
    });
    running = consumer.run();
    await until('it has started', () => watch.receives > 0);
    const texts = warnings.filter(({ code }) => code === 'NT_POOL_SIZE').map(({ message }) => message);
    expect(texts).toHaveLength(warned ? 1 : 0);
    if (warned) expect(texts[0]).toContain(`concurrency ${concurrency} leaves no spare connection in a pool of ${max}`);
  },
);
