import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Pool } from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Consumer, createConsumer, type Message, type Policy, type Sql } from '../../src/index.ts';
import { type MemoryBroker, memoryBroker } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { endsWithin, until } from '../support/until.ts';
import { type Watched, watched } from '../support/watched-source.ts';

const LANES = 20;
const WAITING = 10;

let database: FreshDatabase;
let admin: Pool;
let broker: MemoryBroker;
let watch: Watched;
let consumer: Consumer;
let running: Promise<unknown>;
let started: string[];
let signals: Map<string, AbortSignal>;

beforeEach(async () => {
  database = await freshDatabase();
  admin = database.pool({ max: 2 });
  await admin.query('CREATE TABLE ledger (message_id text NOT NULL)');
  broker = memoryBroker({ partitions: LANES });
  watch = watched(broker.source());
  started = [];
  signals = new Map();
});
afterEach(async () => {
  await consumer.stop({ withinMs: 0 });
  await running;
  await database.drop();
});

/** One message in work on each of twenty lanes, ten more behind them. */
function sendAll(): void {
  for (let i = 0; i < LANES + WAITING; i++) broker.send({ id: `m${i}`, body: {}, partition: i % LANES });
}

function start(handle: (message: Message<unknown>, sql: Sql) => Promise<unknown>, policy: Policy = {}): void {
  consumer = createConsumer({
    name: 'pay',
    store: postgresStore(database.pool({ max: LANES + 1 })),
    source: watch.source,
    concurrency: LANES,
    maxBatch: 1,
    async handle(message, { sql, signal }) {
      started.push(message.id);
      signals.set(message.id, signal);
      await sql`INSERT INTO ledger VALUES (${message.id})`;
      await handle(message, sql);
    },
    ...policy,
  });
  running = consumer.run();
}

const ids = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `m${from + i}`).sort();
const done = async () => (await admin.query('SELECT message_id FROM ledger')).rows.map(row => row.message_id).sort();
const acked = () => {
  expect(watch.settlements.every(({ settle }) => settle === 'ack')).toBe(true);
  return watch.settlements.map(({ delivery }) => delivery.headers.get('message-id')).sort();
};

test('C111: twenty in work, ten waiting: after stop() no handler starts, the twenty end and are acked, the ten are not', async () => {
  const gate = Promise.withResolvers<void>();
  start(() => gate.promise);
  sendAll();
  await until('twenty are in work', () => started.length === LANES);
  const stopped = consumer.stop({ withinMs: 20_000 });
  gate.resolve();
  expect(await endsWithin(10_000, 'stop()', stopped)).toEqual({ abandoned: [] });
  expect(started.toSorted()).toEqual(ids(0, LANES));
  expect(await done()).toEqual(ids(0, LANES));
  expect(acked()).toEqual(ids(0, LANES));
  expect(broker.pending('pay')).toBe(WAITING);
  expect([...signals.values()].some(signal => signal.aborted)).toBe(false);
  // What waited is there for the next run.
  running = consumer.run();
  await endsWithin(10_000, 'the rest is processed', broker.drained('pay'));
  expect(await done()).toEqual(ids(0, LANES + WAITING));
});

test('C111: one handler never ends: it hears of the deadline, is rolled back and not acked, and stop() names it', async () => {
  const gate = Promise.withResolvers<void>();
  start(message => (message.id === 'm7' ? new Promise(() => undefined) : gate.promise));
  sendAll();
  await until('twenty are in work', () => started.length === LANES);
  const stopped = consumer.stop({ withinMs: 700 });
  gate.resolve();
  expect(await endsWithin(10_000, 'stop()', stopped)).toEqual({ abandoned: ['m7'] });
  expect(signals.get('m7')!.reason).toMatchObject({ code: 'NT_STOPPED' });
  const others = ids(0, LANES).filter(id => id !== 'm7');
  expect(await done()).toEqual(others);
  expect(acked()).toEqual(others);
  expect(broker.pending('pay')).toBe(WAITING + 1);
  expect(consumer.summary.failed).toBe(0);
});

test('C111: one statement never ends: at the deadline it is cancelled on the server', async () => {
  start((message, sql) => (message.id === 'm7' ? sql`SELECT pg_sleep(60)` : Promise.resolve()));
  broker.send({ id: 'm7', body: {} });
  await until('it is in work', () => started.length === 1);
  expect(await endsWithin(10_000, 'stop()', consumer.stop({ withinMs: 100 }))).toEqual({ abandoned: ['m7'] });
  const { rows } = await admin.query(
    "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()",
  );
  expect(rows).toEqual([]);
  expect(await done()).toEqual([]);
});

test('C111: in the middle of a batch: what has run commits and is acked, what has not started comes again', async () => {
  const gate = Promise.withResolvers<void>();
  start(message => (message.id === 'm2' ? gate.promise : Promise.resolve()), { maxBatch: 10 });
  for (let i = 0; i < 6; i++) broker.send({ id: `m${i}`, body: {}, partition: 0 });
  await until('the third is in work', () => started.includes('m2'));
  const stopped = consumer.stop({ withinMs: 10_000 });
  gate.resolve();
  expect(await endsWithin(10_000, 'stop()', stopped)).toEqual({ abandoned: [] });
  expect(started).toEqual(['m0', 'm1', 'm2']);
  expect(await done()).toEqual(['m0', 'm1', 'm2']);
  expect(acked()).toEqual(['m0', 'm1', 'm2']);
  running = consumer.run();
  await endsWithin(10_000, 'the rest is processed', broker.drained('pay'));
  expect(await done()).toEqual(ids(0, 6));
});

test('C111: stop() twice: both resolve, and both name what was abandoned', async () => {
  start(() => new Promise(() => undefined));
  broker.send({ id: 'm0', body: {} });
  await until('it is in work', () => started.length === 1);
  const both = Promise.all([consumer.stop({ withinMs: 60_000 }), consumer.stop({ withinMs: 200 })]);
  expect(await endsWithin(10_000, 'both', both)).toEqual([{ abandoned: ['m0'] }, { abandoned: ['m0'] }]);
  expect(await consumer.stop()).toEqual({ abandoned: [] });
});

test('C111: stop() while it starts: nothing is handled, run() and stop() resolve', async () => {
  start(() => Promise.resolve());
  sendAll();
  expect(await endsWithin(10_000, 'stop()', consumer.stop())).toEqual({ abandoned: [] });
  expect(await endsWithin(10_000, 'run()', running)).toMatchObject({ processed: 0 });
  expect(started).toEqual([]);
  expect(watch.settlements).toEqual([]);
});

test.each([
  { what: 'is idle', message: 'none' },
  { what: 'is in a handler that ends', message: 'short' },
  { what: 'is in a handler that never ends', message: 'endless' },
])('C111: SIGTERM while a service $what: its process ends by itself, with nothing open', async ({ message }) => {
  start(() => Promise.resolve());
  const program = fileURLToPath(new URL('stop-child.ts', import.meta.url));
  const child = spawn(process.execPath, [program, database.url, message], { stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', text => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', text => {
    err += text;
  });
  const closed = once(child, 'close');
  try {
    await until('it is at work', () => out.includes('at work'));
    child.kill('SIGTERM');
    expect(await endsWithin(15_000, 'the process ends', closed)).toEqual([0, null]);
  } finally {
    child.kill('SIGKILL');
  }
  expect(err).toBe('');
  expect(out).toContain(message === 'endless' ? 'abandoned m1' : 'abandoned nothing');
  expect(await done()).toEqual(message === 'short' ? ['m1'] : []);
});
