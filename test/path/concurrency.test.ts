import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer } from '../../src/index.ts';
import { memoryBroker, memorySource, memoryStore } from '../../src/memory.ts';
import { SEED, seeded } from '../support/random.ts';
import { until } from '../support/until.ts';
import { onPostgres } from '../support/wallet.ts';
import { manualClock } from './clock.ts';
import { deliverySource } from './deliveries.ts';
import { watched } from './sources.ts';
import { type AnyStore, allStores, freshName } from './stores.ts';
import { warningsOf } from './warnings.ts';

describe.each(allStores)('$name', ({ name: storeName, create }) => {
  let s: AnyStore;
  beforeAll(async () => {
    s = await create();
  });
  afterAll(() => s.drop());

  // SQLite runs one transaction at a time whatever is asked for.
  test.skipIf(storeName === 'SQLite')('never more than `concurrency` lanes are worked on at once', async () => {
    const wallet = await s.wallet();
    const broker = memoryBroker({ partitions: 12 });
    for (let i = 0; i < 36; i++) broker.send({ id: `m${i}`, partition: i % 12 });
    const open = Promise.withResolvers<void>();
    let [running, most] = [0, 0];
    const consumer = createConsumer({
      name: freshName(),
      store: s.store,
      concurrency: 3,
      handle: async (_, context) => {
        most = Math.max(most, ++running);
        await open.promise;
        await wallet.credit(context, 1);
        running--;
      },
    });
    const done = consumer.run({ source: broker.source({ finite: true }) });
    await until('three handlers run', () => running === 3);
    for (let i = 0; i < 50; i++) await nextTurn();
    open.resolve();
    expect(await done).toMatchObject({ processed: 36 });
    expect([most, await wallet.balance()]).toEqual([3, 36]);
  });

  test(`within a lane messages are handled in order, also when some need several tries (seed ${SEED})`, async () => {
    const random = seeded(SEED);
    const wallet = await s.wallet();
    const orders = new Map<string, number[]>();
    const failed = new Set<string>();
    const consumer = createConsumer({
      name: freshName(),
      store: s.store,
      retries: { attempts: 3, minMs: 1, maxMs: 2 },
      handle: async (message, context) => {
        for (let i = random.below(3); i > 0; i--) await nextTurn();
        if (random.chance(0.1) && !failed.has(message.id)) {
          failed.add(message.id);
          throw new Error('once');
        }
        await wallet.credit(context, 1);
        const [lane, offset] = message.position!.split(/\/(?=\d+$)/) as [string, string];
        // A try that is rolled back with its neighbours comes again; the last one counts.
        orders.set(lane, [...(orders.get(lane) ?? []).filter(at => at < Number(offset)), Number(offset)]);
      },
    });
    const messages = Array.from({ length: 80 }, (_, i) => ({ id: `m${i}`, partition: i % 4 }));
    const summary = await consumer.run({ source: memorySource(messages, { partitions: 4, retryLater: false }) });
    expect(summary).toMatchObject({ processed: 80, deadLetters: 0 });
    for (const order of orders.values()) expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
    if (storeName !== 'memory') expect(await wallet.balance()).toBe(80);
  });
});

describe('memory is bounded', () => {
  let store: ReturnType<typeof memoryStore>;
  beforeEach(() => {
    store = memoryStore();
  });
  afterEach(() => store.close());
  const numbered = (n: number) => Array.from({ length: n }, (_, i) => ({ id: `m${i}` }));

  test('a lane is never asked for more than maxBatch, nor for anything while a batch of it is in work', async () => {
    const source = deliverySource(numbered(95));
    const watch = watched(source);
    const consumer = createConsumer({ name: 'pay', store, maxBatch: 10, handleBatch: () => nextTurn() });
    expect(await consumer.run({ source: watch.source })).toMatchObject({ processed: 95 });
    expect(source.asked).toEqual(Array(11).fill(10));
    expect(watch.mostUnsettled).toBe(10);
  });

  test('over many lanes no more than one batch each, and one read ahead, is in this process', async () => {
    const broker = memoryBroker({ partitions: 5 });
    for (let i = 0; i < 500; i++) broker.send({ id: `m${i}`, partition: i % 5 });
    const watch = watched(broker.source({ finite: true }));
    const consumer = createConsumer({ name: 'pay', store, maxBatch: 7, concurrency: 2, handle: () => nextTurn() });
    expect(await consumer.run({ source: watch.source })).toMatchObject({ processed: 500 });
    expect(watch.mostUnsettled).toBeGreaterThan(35);
    expect(watch.mostUnsettled).toBeLessThanOrEqual(70);
  });

  test('the batch size follows the handler’s time towards batchBudgetMs', async () => {
    const clock = manualClock();
    let each = 0;
    const source = deliverySource(numbered(3_000));
    const consumer = createConsumer({
      name: 'pay',
      store,
      clock,
      maxBatch: 500,
      batchBudgetMs: 100,
      handleBatch: messages => {
        clock.advance(each * messages.length);
        // Fast for five batches, then slow, then fast again.
        each = source.asked.length < 5 || source.asked.length > 12 ? 0.1 : 10;
      },
    });
    await consumer.run({ source });
    // Grows twofold, up to the budget and to maxBatch; shrinks at once to what the slower time allows.
    expect(source.asked.slice(0, 5)).toEqual([64, 128, 256, 500, 500]);
    expect(source.asked[6]).toBeLessThan(25);
    expect(source.asked.slice(7, 13)).toEqual(Array(6).fill(10));
    expect(Math.max(...source.asked.slice(14))).toBe(500);
  });
});

describe('lanes and the pool', () => {
  const lanesOn = async (max: number, options: object, expected: number) => {
    const w = await onPostgres({ max });
    const broker = memoryBroker({ partitions: 10 });
    for (let i = 0; i < 10; i++) broker.send({ id: `m${i}`, partition: i });
    const open = Promise.withResolvers<void>();
    let [running, most] = [0, 0];
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      ...options,
      handle: async () => {
        most = Math.max(most, ++running);
        await open.promise;
        running--;
      },
    });
    const done = consumer.run({ source: broker.source({ finite: true }) });
    await until(`${expected} handlers run`, () => running >= expected);
    for (let i = 0; i < 50; i++) await nextTurn();
    open.resolve();
    await done;
    await w.drop();
    return most;
  };

  test('by default one connection of the pool is left for the handlers’ own use', async () => {
    const warnings = await warningsOf('NT_POOL_SIZE');
    expect(await lanesOn(3, {}, 2)).toBe(2);
    expect(await warnings.read()).toEqual([]);
  });

  test('a concurrency that needs the whole pool is warned about, with the number to set', async () => {
    const warnings = await warningsOf('NT_POOL_SIZE');
    await lanesOn(3, { concurrency: 2 }, 2);
    expect(await warnings.read()).toEqual([]);
    await lanesOn(3, { concurrency: 3 }, 3);
    expect(await warnings.read()).toEqual([expect.stringMatching(/concurrency 3.*pool of 3.*max to 4/)]);
  });
});
