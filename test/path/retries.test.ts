import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Clock, createConsumer, NevertwiceError, Reject, Unavailable } from '../../src/index.ts';
import { memoryBroker, memorySource, memoryStore } from '../../src/memory.ts';
import { until } from '../support/until.ts';
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

  test('tries in the process, with a growing pause, are counted; the one that works is the only effect', async () => {
    const [name, wallet, clock] = [freshName(), await s.wallet(), manualClock()];
    const attempts: number[] = [];
    const consumer = createConsumer({
      name,
      store: s.store,
      clock,
      retries: { attempts: 5, minMs: 100, maxMs: 500 },
      handle: async (message, context) => {
        attempts.push(message.attempt);
        if (storeName !== 'memory') await wallet.credit(context, 500);
        if (attempts.length < 5) throw new Error('cannot yet');
        if (storeName === 'memory') await wallet.credit(context, 500);
      },
    });
    expect(await consumer.run({ source: memorySource([{ id: 'm1' }]) })).toMatchObject({
      processed: 1,
      failed: 4,
      deadLetters: 0,
    });
    expect([attempts, await wallet.balance()]).toEqual([[1, 2, 3, 4, 5], 500]);
    // Half of each pause is chance; 0.5 here.
    expect(clock.slept).toEqual([100, 200, 400, 500].map(ms => ms * 0.75));
  });

  test('out of attempts it goes back to the source; out of deliveries it is a dead letter; the others go on meanwhile', async () => {
    const [name, wallet, clock] = [freshName(), await s.wallet(), manualClock()];
    const attempts: number[] = [];
    const order: string[] = [];
    const broker = memoryBroker({ partitions: 1, clock });
    for (const id of ['m1', 'm2', 'm3']) broker.send({ id, body: { of: id } });
    const watch = watched(broker.source({ finite: true }));
    const consumer = createConsumer({
      name,
      store: s.store,
      clock,
      retries: { attempts: 2, deliveries: 3, minMs: 1, maxMs: 1 },
      handle: async (message, context) => {
        if (message.id === 'm2') {
          attempts.push(message.attempt);
          throw new Error('never');
        }
        order.push(message.id);
        await wallet.credit(context, 1);
      },
    });
    const summary = await consumer.run({ source: watch.source });
    expect(summary).toEqual({ processed: 2, duplicates: 0, conflicts: 0, deadLetters: 1, failed: 6 });
    expect(attempts).toEqual([1, 2, 2, 3, 3, 4]);
    expect(new Set(order)).toEqual(new Set(['m1', 'm3']));
    expect(await wallet.balance()).toBe(2);
    const delays = watch.settlements.flatMap(one => (one.settle === 'retry-later' ? [one.delayMs] : []));
    expect(delays).toEqual([750, 1500]);
    expect(await s.deadLetters(name)).toEqual([
      { id: 'm2', kind: 'attempts', reason: 'never', attempts: 4, position: 'memory/0/1', payload: '{"of":"m2"}' },
    ]);
  });

  test('redelivered after it was handed back, it works: processed, and no dead letter', async () => {
    const [name, wallet, clock] = [freshName(), await s.wallet(), manualClock()];
    const seen: number[] = [];
    const consumer = createConsumer({
      name,
      store: s.store,
      clock,
      retries: { attempts: 1, deliveries: 5 },
      handle: async (message, context) => {
        seen.push(message.attempt);
        if (message.attempt < 3) throw new Error('cannot yet');
        await wallet.credit(context, 500);
      },
    });
    const broker = memoryBroker({ partitions: 1, clock });
    broker.send({ id: 'm1' });
    expect(await consumer.run({ source: broker.source({ finite: true }) })).toMatchObject({
      processed: 1,
      failed: 2,
      deadLetters: 0,
    });
    expect([seen, await wallet.balance(), await s.deadLetters(name)]).toEqual([[1, 2, 3], 500, []]);
  });

  test('a source that cannot take one back: the lane waits, and after the attempts it is a dead letter', async () => {
    const [name, wallet, clock] = [freshName(), await s.wallet(), manualClock()];
    const order: string[] = [];
    const consumer = createConsumer({
      name,
      store: s.store,
      clock,
      maxBatch: 1,
      retries: { attempts: 3 },
      handle: async (message, context) => {
        order.push(message.id);
        if (message.id === 'm1') throw new Error('never');
        await wallet.credit(context, 1);
      },
    });
    const source = deliverySource(['m0', 'm1', 'm2'].map(id => ({ id })));
    expect(await consumer.run({ source })).toMatchObject({ processed: 2, deadLetters: 1, failed: 3 });
    expect(source.outcomes).toEqual(['processed', 'dead-lettered', 'processed']);
    expect(order).toEqual(['m0', 'm1', 'm1', 'm1', 'm2']);
  });

  test('copies of what is handed back are handed back with it', async () => {
    const consumer = createConsumer({
      name: freshName(),
      store: s.store,
      clock: manualClock(),
      retries: { attempts: 1 },
      handle: () => Promise.reject(new Error('never')),
    });
    const source = deliverySource([{ id: 'm1' }, { id: 'm1' }], { retryLater: true });
    expect(await consumer.run({ source })).toMatchObject({ failed: 1, deadLetters: 0 });
    expect(source.outcomes).toEqual(['retry-later', 'retry-later']);
  });

  test('Reject after failed tries is final at once', async () => {
    const name = freshName();
    let tries = 0;
    const consumer = createConsumer({
      name,
      store: s.store,
      clock: manualClock(),
      handle: () => {
        throw ++tries < 3 ? new Error('cannot yet') : new Reject('closed');
      },
    });
    const source = deliverySource([{ id: 'm1' }], { retryLater: true });
    expect(await consumer.run({ source })).toMatchObject({ deadLetters: 1, failed: 2 });
    expect([tries, source.outcomes]).toEqual([3, ['dead-lettered']]);
    expect(await s.deadLetters(name)).toMatchObject([{ kind: 'rejected', reason: 'closed' }]);
  });

  test.each([{ retryLater: true }, { retryLater: false }])(
    'Unavailable ($retryLater): the lane pauses and probes, no attempt is spent, and it goes on by itself',
    async ({ retryLater }) => {
      const [name, wallet, clock] = [freshName(), await s.wallet(), manualClock()];
      const warnings = await warningsOf('NT_UNAVAILABLE');
      let down = 6;
      const attempts: number[] = [];
      const consumer = createConsumer({
        name,
        store: s.store,
        clock,
        retries: { attempts: 1, deliveries: 1 },
        handle: async (message, context) => {
          if (message.id === 'm2') {
            attempts.push(message.attempt);
            if (down-- > 0) throw new Unavailable('the bank');
          }
          await wallet.credit(context, 1);
        },
      });
      const source = deliverySource(
        ['m1', 'm2', 'm3'].map(id => ({ id })),
        { retryLater },
      );
      const summary = await consumer.run({ source });
      expect(source.outcomes).toEqual(['processed', 'processed', 'processed']);
      expect(summary).toEqual({ processed: 3, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
      expect(new Set(attempts)).toEqual(new Set([1]));
      if (storeName !== 'memory') expect(await wallet.balance()).toBe(3);
      // The pauses grow, since the store itself answers every probe and would be asked hot.
      const pauses = clock.slept.filter(ms => ms >= 75);
      expect(pauses.slice(0, 3)).toEqual([75, 150, 300]);
      expect(await warnings.read()).toEqual([
        expect.stringMatching(new RegExp(`${name} pauses: .*the bank is unavailable`)),
      ]);
    },
  );

  test('Unavailable and then a stop: the run ends, the message is not acked', async () => {
    const [name, broker] = [freshName(), memoryBroker({ partitions: 1 })];
    broker.send({ id: 'm1' });
    let calls = 0;
    const consumer = createConsumer({
      name,
      store: s.store,
      handle: () => {
        calls++;
        throw new Unavailable('the bank');
      },
    });
    const running = consumer.run({ source: broker.source() });
    await until('it was tried', () => calls > 0);
    // What waits for the end of an outage is in hand, and comes again.
    expect(await consumer.stop()).toEqual({ abandoned: ['m1'] });
    expect(await running).toMatchObject({ processed: 0, deadLetters: 0, failed: 0 });
    expect(broker.pending(name)).toBe(1);
  });

  // On SQLite the second one simply has its turn after the first.
  test.skipIf(storeName === 'SQLite')(
    'a message that a live owner has is handed back without an attempt, its neighbours go on',
    async () => {
      const [name, wallet] = [freshName(), await s.wallet()];
      const [started, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const owner = createConsumer({
        name,
        store: s.store,
        handle: async (_, context) => {
          started.resolve();
          await goOn.promise;
          await wallet.credit(context, 1);
        },
      });
      const owning = owner.run({ source: memorySource([{ id: 'm2', body: {} }]) });
      await started.promise;
      const other = createConsumer({
        name,
        store: s.another(),
        busyWaitMs: 20,
        handle: (_, context) => wallet.credit(context, 1),
      });
      const source = deliverySource(
        ['m1', 'm2', 'm3'].map(id => ({ id })),
        { retryLater: true },
      );
      expect(await other.run({ source })).toEqual({
        processed: 2,
        duplicates: 0,
        conflicts: 0,
        deadLetters: 0,
        failed: 0,
      });
      expect(source.outcomes).toEqual(['processed', 'retry-later', 'processed']);
      // A source that cannot take it back has its lane wait for as long as it takes.
      const waits = deliverySource([{ id: 'm2' }, { id: 'm4' }]);
      const waiting = other.run({ source: waits });
      for (let i = 0; i < 100; i++) await nextTurn();
      expect(waits.outcomes[0]).toBeUndefined();
      goOn.resolve();
      await Promise.all([owning, waiting]);
      expect(waits.outcomes).toEqual(['duplicate', 'processed']);
      expect(await wallet.balance()).toBe(4);
    },
  );
});

test('everything on one store that waits out the same trouble waits for one probe', async () => {
  const store = memoryStore();
  const sleeping: (() => void)[] = [];
  const clock: Clock = {
    monotonicMs: () => 0,
    random: () => 0.5,
    sleep: () => new Promise<void>(resolve => sleeping.push(resolve)),
  };
  let down = true;
  let waiting = 0;
  const run = (name: string) => {
    const handle = () => {
      if (!down) return;
      waiting++;
      throw new NevertwiceError('NT_STORE_DOWN', 'the store is away');
    };
    const messages = Array.from({ length: 3 }, (_, i) => ({ id: `m${i}`, partition: i }));
    const source = memorySource(messages, { partitions: 3 });
    return createConsumer({ name, store, clock, handle }).run({ source });
  };
  const runs = [run('email'), run('ledger')];
  await until('six lanes wait', () => waiting === 6);
  await nextTurn();
  expect(sleeping).toHaveLength(1);
  down = false;
  sleeping[0]!();
  for (const summary of await Promise.all(runs)) expect(summary).toMatchObject({ processed: 3, failed: 0 });
  expect(sleeping).toHaveLength(1);
});

describe('a downstream that is down', () => {
  /** Four lanes of five messages, whose handler says what comes of each try. */
  function run(handle: (id: string, tries: number) => void, options: object = {}) {
    const clock = manualClock();
    const tries = new Map<string, number>();
    const store = memoryStore({ clock });
    const consumer = createConsumer({
      name: 'pay',
      store,
      clock,
      retries: { attempts: 2, minMs: 1, maxMs: 1 },
      handle: ({ id }) => {
        tries.set(id, (tries.get(id) ?? 0) + 1);
        handle(id, tries.get(id)!);
      },
      ...options,
    });
    const messages = Array.from({ length: 20 }, (_, i) => ({ id: `m${i}`, partition: i % 4 }));
    return {
      clock,
      store,
      tries,
      done: consumer.run({ source: memorySource(messages, { partitions: 4, clock, retryLater: false }) }),
    };
  }

  test('Unavailable with a hint: all lanes wait together, for as long as it says, an hour at most', async () => {
    const hints = [45_000, 10 * 3_600_000];
    const { clock, done } = run((_, tries) => {
      if (tries <= hints.length) throw new Unavailable('the bank', { retryAfterMs: hints[tries - 1]! });
    });
    expect(await done).toEqual({ processed: 20, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
    const long = clock.slept.filter(ms => ms >= 45_000);
    expect([...new Set(long)].toSorted()).toEqual([3_600_000, 45_000]);
    // Twenty messages met it twice each; a pause is one for all that wait.
    expect(long.length).toBeLessThanOrEqual(10);
  });

  test('Unavailable pauses under onStoreDown: throw as well: the store is there', async () => {
    const { done } = run(
      (_, tries) => {
        if (tries === 1) throw new Unavailable('the bank');
      },
      { onStoreDown: 'throw' },
    );
    expect(await done).toMatchObject({ processed: 20, failed: 0 });
  });

  test('without a circuit the backlog is dead-lettered; with one it is kept, and done once the downstream is back', async () => {
    const failing = { until: 12 };
    const down = (_: string, tries: number) => {
      if (tries <= failing.until) throw new Error('503');
    };
    expect(await run(down).done).toMatchObject({ processed: 0, deadLetters: 20 });
    const { done, store, clock } = run(down, { circuit: { of: 4, ratio: 0.5 } });
    const summary = await done;
    // What fails before the circuit has seen enough of it is judged as ever.
    expect(summary.deadLetters).toBeLessThanOrEqual(2);
    expect(summary.processed + summary.deadLetters).toBe(20);
    expect(store.deadLetters('pay')).toHaveLength(summary.deadLetters);
    expect(Math.max(...clock.slept)).toBeGreaterThan(1_000);
  });

  test('a circuit does not keep a bad message among good ones, nor a lone one for ever', async () => {
    const bad = run(
      id => {
        if (id === 'm7') throw new Error('bad');
      },
      { circuit: { of: 4, ratio: 1 } },
    );
    expect(await bad.done).toMatchObject({ processed: 19, deadLetters: 1 });
    const alone = run(
      () => {
        throw new Error('bad');
      },
      { circuit: { of: 4, holdMs: 60_000 } },
    );
    expect(await alone.done).toMatchObject({ processed: 0, deadLetters: 20 });
    expect(alone.clock.slept.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThan(60_000);
  });

  test.each([{ ratio: 0 }, { ratio: 1.1 }, { of: 1 }, { holdMs: 0 }])('circuit %j is refused by name', circuit => {
    expect(() => createConsumer({ name: 'pay', handle: () => undefined, circuit } as never)).toThrow(
      expect.objectContaining({ code: 'NT_CONFIG', message: expect.stringContaining(Object.keys(circuit)[0]!) }),
    );
  });
});
