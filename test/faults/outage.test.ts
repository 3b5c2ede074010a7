import { Pool } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Consumer, createConsumer } from '../../src/index.ts';
import { type MemoryBroker, memoryBroker } from '../../src/memory.ts';
import { type PostgresStoreHandle, postgresStore } from '../../src/stores/postgres/index.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { endsWithin, until } from '../support/until.ts';
import { type Watched, watched } from '../support/watched-source.ts';

const LANES = 20;
const MESSAGES = 1_000;
/** Probes begin 100 ms after an outage was met, the next ones later. */
const LONGER_THAN_THE_FIRST_WAITS_MS = 500;

let server: PostgresServer;
let pool: Pool;
let store: PostgresStoreHandle<unknown>;
let broker: MemoryBroker;
let watch: Watched;
let consumer: Consumer;
let running: Promise<unknown>;
const probes = { running: 0, most: 0, total: 0 };

/** Resolves when a second probe has begun, or once one would have. */
async function otherProbe(): Promise<void> {
  await until('another probe', () => probes.total > 1, LONGER_THAN_THE_FIRST_WAITS_MS).catch(() => undefined);
}

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

beforeEach(async () => {
  pool = new Pool({ connectionString: server.url, pipeline: true, max: LANES + 1 });
  // The schema's name keeps the tests of this file apart.
  await pool.query('DROP SCHEMA IF EXISTS nevertwice CASCADE; DROP TABLE IF EXISTS ledger');
  await pool.query('CREATE TABLE ledger (message_id text NOT NULL)');
  store = postgresStore(pool) as PostgresStoreHandle<unknown>;
  const ping = store.ping.bind(store);
  Object.assign(probes, { running: 0, most: 0, total: 0 });
  store.ping = async () => {
    const first = ++probes.total === 1;
    probes.most = Math.max(probes.most, ++probes.running);
    // A refused connection fails in no time; the first probe lasts, so that any other would be seen beside it.
    if (first) await otherProbe();
    await ping().finally(() => probes.running--);
  };
  broker = memoryBroker({ partitions: LANES });
  watch = watched(broker.source());
});

afterEach(async () => {
  await consumer.stop({ withinMs: 0 });
  await running.catch(() => undefined);
  await pool.end();
});

async function eachOnce(messages: number): Promise<void> {
  const { rows } = await pool.query('SELECT count(*)::int AS n, count(DISTINCT message_id)::int AS ids FROM ledger');
  expect(rows).toEqual([{ n: messages, ids: messages }]);
  const inbox = await pool.query('SELECT count(*)::int AS n FROM nevertwice.inbox');
  expect(inbox.rows).toEqual([{ n: messages }]);
  const letters = await pool.query('SELECT count(*)::int AS n FROM nevertwice.dead_letters');
  expect(letters.rows).toEqual([{ n: 0 }]);
}

// In a batch of several a failure that nobody is to blame for only splits the batch; alone it would count as a try.
describe.each([
  { end: 'kill', maxBatch: 10 },
  { end: 'shutdown', maxBatch: 10 },
  { end: 'kill', maxBatch: 1 },
  { end: 'shutdown', maxBatch: 1 },
] as const)('C90: the server ends by $end under load, batches of $maxBatch', ({ end, maxBatch }) => {
  const title =
    'nothing is settled or received meanwhile, one probe asks for all; then everything once, no attempt spent';
  test(title, { timeout: 60_000 }, async () => {
    const attempts: number[] = [];
    const inHandler = new Set<string>();
    const gate = Promise.withResolvers<void>();
    consumer = createConsumer({
      name: 'pay',
      store,
      source: watch.source,
      concurrency: LANES,
      maxBatch,
      async handle(message, { sql }) {
        attempts.push(message.attempt);
        await sql`INSERT INTO ledger VALUES (${message.id})`;
        inHandler.add(message.position!);
        await gate.promise;
        // Some find out in a statement of theirs, the others at the commit.
        if (message.id.endsWith('1')) await sql`SELECT 1`;
      },
    });
    for (let i = 0; i < MESSAGES; i++) broker.send({ id: `m${i}`, body: {}, partition: i % LANES });
    running = consumer.run();
    await until('every lane is in a handler', () => inHandler.size === LANES);
    await server[end]();
    gate.resolve();

    await until('the first probe has failed', () => probes.total >= 2);
    const { receives } = watch;
    await until('some more have', () => probes.total >= 5);
    expect(watch.receives).toBe(receives);
    // The one in work, and the one that the memory source lets be read ahead.
    expect(watch.received.length).toBeLessThanOrEqual(2 * LANES * maxBatch);
    expect(watch.settlements).toEqual([]);
    expect(broker.pending('pay')).toBe(MESSAGES);

    await server.start();
    await endsWithin(25_000, 'everything is processed after the recovery', broker.drained('pay'));
    expect(watch.revoked).toBe(0);
    expect(watch.settlements).toHaveLength(MESSAGES);
    expect(probes.most).toBe(1);
    expect(new Set(attempts)).toEqual(new Set([1]));
    const { processed, duplicates, ...rest } = consumer.summary;
    expect(processed + duplicates).toBe(MESSAGES);
    expect(rest).toEqual({ conflicts: 0, deadLetters: 0, failed: 0 });
    await eachOnce(MESSAGES);
  });
});

test('C90: a server that restarts while the consumer is idle: the next message goes through, and the process lives', async () => {
  consumer = createConsumer({
    name: 'pay',
    store,
    source: watch.source,
    handle: (message, { sql }) => sql`INSERT INTO ledger VALUES (${message.id})`,
  });
  running = consumer.run();
  broker.send({ id: 'm1', body: {} });
  await endsWithin(10_000, 'm1', broker.drained('pay'));
  await server.kill();
  broker.send({ id: 'm2', body: {} });
  await until('it pauses', () => probes.total >= 2);
  await server.start();
  await endsWithin(20_000, 'm2', broker.drained('pay'));
  expect(consumer.summary).toEqual({ processed: 2, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
  await eachOnce(2);
});

test('stop() while the store is down resolves at once; what was in hand is not settled', async () => {
  consumer = createConsumer({
    name: 'pay',
    store,
    source: watch.source,
    handle: (message, { sql }) => sql`INSERT INTO ledger VALUES (${message.id})`,
  });
  running = consumer.run();
  await until('it runs', () => watch.receives > 0);
  await server.kill();
  broker.send({ id: 'm1', body: {} });
  await until('it pauses', () => probes.total >= 2);
  await endsWithin(2_000, 'stop()', consumer.stop());
  await running;
  expect(watch.settlements).toEqual([]);
  await server.start();
  running = consumer.run();
  await endsWithin(20_000, 'm1', broker.drained('pay'));
  await eachOnce(1);
});

test('a store that is down at the start: run rejects with NT_STORE_DOWN, in one line', async () => {
  consumer = createConsumer({ name: 'pay', store, source: watch.source, handle: () => undefined });
  await server.kill();
  running = consumer.run();
  const error = await running.then(
    () => undefined,
    (e: Error) => e,
  );
  await server.start();
  expect(error).toMatchObject({ code: 'NT_STORE_DOWN', retryable: true });
  expect(error!.message).toMatch(/^cannot connect to PostgreSQL \(ECONNREFUSED\)$/);
  expect(watch.receives).toBe(0);
});
