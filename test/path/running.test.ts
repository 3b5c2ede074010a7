import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createConsumer, type Store } from '../../src/index.ts';
import { memoryBroker, memorySource } from '../../src/memory.ts';
import { until } from '../support/until.ts';
import { deliverySource } from './deliveries.ts';
import { type AnyStore, allStores, freshName } from './stores.ts';

const zero = { processed: 0, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 };

describe.each(allStores)('$name', ({ create }) => {
  let s: AnyStore;
  beforeAll(async () => {
    s = await create();
  });
  afterAll(() => s.drop());

  async function fixture(hold?: (id: string) => Promise<void> | undefined) {
    const [name, wallet, broker] = [freshName(), await s.wallet(), memoryBroker({ partitions: 1 })];
    const handled: string[] = [];
    const consumer = createConsumer({
      name,
      store: s.store,
      source: broker.source(),
      handle: async (message, context) => {
        handled.push(message.id);
        await hold?.(message.id);
        await wallet.credit(context, 1);
      },
    });
    return { name, wallet, broker, consumer, handled };
  }

  test('a consumer runs once at a time; after its end it may run again, and counts go on', async () => {
    const { broker, consumer, wallet } = await fixture();
    broker.send({ id: 'm1' });
    const running = consumer.run();
    await expect(consumer.run()).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringContaining('already running'),
    });
    await until('the first is done', () => consumer.summary.processed === 1);
    expect(await consumer.stop()).toEqual({ abandoned: [] });
    const first = await running;
    expect(first).toEqual({ ...zero, processed: 1 });
    broker.send({ id: 'm2' });
    broker.redeliver('m1');
    expect(await consumer.run({ source: broker.source({ finite: true }) })).toEqual({
      ...zero,
      processed: 2,
      duplicates: 1,
    });
    // What the first run returned is its own.
    expect([first.processed, await wallet.balance()]).toEqual([1, 2]);
  });

  test('stop before run does nothing; the consumer runs afterwards', async () => {
    const { broker, consumer } = await fixture();
    expect(await consumer.stop()).toEqual({ abandoned: [] });
    expect(await consumer.stop({ withinMs: 0 })).toEqual({ abandoned: [] });
    broker.send({ id: 'm1' });
    expect(await consumer.run({ source: broker.source({ finite: true }) })).toMatchObject({ processed: 1 });
  });

  test('stop while it starts: nothing is received', async () => {
    const { name, broker, consumer, handled } = await fixture();
    broker.send({ id: 'm1' });
    const running = consumer.run();
    expect(await consumer.stop()).toEqual({ abandoned: [] });
    expect(await running).toEqual(zero);
    expect([handled, broker.pending(name)]).toEqual([[], 1]);
  });

  test('a signal that has fired already: nothing is received; one that fires later is a stop', async () => {
    const goOn = Promise.withResolvers<void>();
    const { name, broker, consumer, handled, wallet } = await fixture(id => (id === 'm1' ? goOn.promise : undefined));
    for (const id of ['m1', 'm2', 'm3']) broker.send({ id });
    expect(await consumer.run({ signal: AbortSignal.abort() })).toEqual(zero);
    expect(handled).toEqual([]);
    const abort = new AbortController();
    const running = consumer.run({ signal: abort.signal });
    await until('the first handler runs', () => handled.length === 1);
    abort.abort();
    for (let i = 0; i < 20; i++) await nextTurn();
    goOn.resolve();
    // The running one is finished, committed and acked; no other starts.
    expect(await running).toEqual({ ...zero, processed: 1 });
    expect([handled, await wallet.balance(), broker.pending(name)]).toEqual([['m1'], 1, 2]);
  });

  test('the summary is live: it counts while the consumer runs', async () => {
    const goOn = Promise.withResolvers<void>();
    const { broker, consumer } = await fixture(id => (id === 'm3' ? goOn.promise : undefined));
    expect(consumer.summary).toEqual(zero);
    for (const id of ['m1', 'm2', 'm1']) broker.send({ id });
    const running = consumer.run();
    await until('three are counted', () => consumer.summary.duplicates === 1);
    expect(consumer.summary).toEqual({ ...zero, processed: 2, duplicates: 1 });
    broker.send({ id: 'm3' });
    await nextTurn();
    expect(consumer.summary.processed).toBe(2);
    goOn.resolve();
    await until('the fourth is counted', () => consumer.summary.processed === 3);
    await consumer.stop();
    expect(await running).toEqual(consumer.summary);
  });

  test('two stops at once end together and say the same', async () => {
    const { broker, consumer, handled } = await fixture(() => new Promise(() => undefined));
    broker.send({ id: 'm1' });
    const running = consumer.run();
    await until('the handler runs', () => handled.length === 1);
    const stops = await Promise.all([
      consumer.stop({ withinMs: 20 }),
      consumer.stop(),
      consumer.stop({ withinMs: 10_000 }),
    ]);
    expect(stops).toEqual(Array(3).fill({ abandoned: ['m1'] }));
    expect(await running).toEqual(zero);
  });

  test('a handler may stop its own consumer; what it does is committed', async () => {
    const { broker, consumer, wallet } = await fixture(async () => void consumer.stop());
    broker.send({ id: 'm1' });
    broker.send({ id: 'm2' });
    expect(await consumer.run()).toEqual({ ...zero, processed: 1 });
    expect(await wallet.balance()).toBe(1);
  });

  test('a finite source that is empty ends the run at once', async () => {
    const { consumer } = await fixture();
    expect(await consumer.run({ source: memorySource([]) })).toEqual(zero);
  });

  test('a start that fails gives its name back and can be tried again', async () => {
    const { consumer } = await fixture();
    const thrown = new Error('not yet');
    const { promise, name, capabilities, positions } = s.store;
    const failing = { promise, name, capabilities, positions, open: () => Promise.reject(thrown) } as unknown as Store;
    const source = deliverySource([{ id: 'm1' }]);
    await expect(consumer.run({ store: failing, source })).rejects.toBe(thrown);
    await expect(consumer.run({ store: failing, source })).rejects.toBe(thrown);
    expect(await consumer.run({ source })).toMatchObject({ processed: 1 });
  });
});
