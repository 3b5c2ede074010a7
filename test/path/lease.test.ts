import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  type ConsumerRegistration,
  createConsumer,
  createInbox,
  type LeaseContext,
  type LeaseStore,
  NevertwiceError,
  type PointAt,
  Reject,
  Unavailable,
} from '../../src/index.ts';
import { memoryBroker, memorySource, memoryStore } from '../../src/memory.ts';
import { until } from '../support/until.ts';
import { type ManualClock, manualClock } from './clock.ts';
import { deliverySource } from './deliveries.ts';

const LEASE_MS = 60_000;
let clock: ManualClock;
let store: ReturnType<typeof memoryStore>;
beforeEach(() => {
  clock = manualClock();
  store = memoryStore({ clock });
});
afterEach(() => store.close());

const m1 = { id: 'm1', body: { amount: 500 } };
const kinds = () => store.deadLetters('pay').map(letter => [letter.messageId, letter.kind]);
const done = async () => (await store.stats()).find(counts => counts.consumer === 'pay')!.processed;

/** A handler that stands still until it is let go. */
function gate() {
  const [started, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  return {
    started: started.promise,
    open: () => goOn.resolve(),
    pass: () => {
      started.resolve();
      return goOn.promise;
    },
  };
}

describe('one owner at a time', () => {
  test('of two callers one is busy until the other is done; then it gets his result', async () => {
    const [first, second] = [createInbox({ name: 'pay', store }), createInbox({ name: 'pay', store, busyWaitMs: 0 })];
    const held = gate();
    const working = first.process(m1, async () => {
      await held.pass();
      return { charge: 'ch_1' };
    });
    await held.started;
    await expect(second.process(m1, () => expect.unreachable())).rejects.toMatchObject({
      code: 'NT_BUSY',
      retryable: true,
    });
    held.open();
    expect(await working).toEqual({ status: 'processed', result: { charge: 'ch_1' } });
    expect(await second.process(m1, () => expect.unreachable())).toEqual({
      status: 'duplicate',
      cause: 'completed',
      result: { charge: 'ch_1' },
    });
  });

  test('of a hundred calls at once one handles, and all the others get its result', async () => {
    const inboxes = [createInbox({ name: 'pay', store, clock }), createInbox({ name: 'pay', store, clock })];
    let effects = 0;
    const calls = Array.from({ length: 100 }, (_, i) => inboxes[i % 2]!.process(m1, async () => ++effects));
    const outcomes = await Promise.all(calls);
    expect(effects).toBe(1);
    expect(new Set(outcomes.map(outcome => (outcome as { result: number }).result))).toEqual(new Set([1]));
    expect(outcomes.filter(outcome => outcome.status === 'duplicate')).toHaveLength(99);
  });

  test('C78: a failure gives the message up at once: the second delivery is handled, the third is a duplicate', async () => {
    const inbox = createInbox({ name: 'pay', store, busyWaitMs: 0 });
    const thrown = new Error('the bank said no');
    await expect(inbox.process(m1, () => Promise.reject(thrown))).rejects.toBe(thrown);
    expect(await inbox.process(m1, () => 'paid')).toEqual({ status: 'processed', result: 'paid' });
    expect(await inbox.process(m1, () => expect.unreachable())).toMatchObject({ status: 'duplicate' });
  });

  test('the token rises with every owner of a message', async () => {
    const inbox = createInbox({ name: 'pay', store });
    const tokens: bigint[] = [];
    const take = async (_: unknown, context: LeaseContext) => {
      tokens.push(context.token);
      if (tokens.length < 4) throw new Error('again');
    };
    for (let i = 0; i < 3; i++) await inbox.process(m1, take).catch(() => undefined);
    await inbox.process(m1, take);
    expect(tokens.every(token => typeof token === 'bigint' && token > 0n)).toBe(true);
    expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)));
    expect(new Set(tokens).size).toBe(4);
  });

  test('in a set each message has its own token, and the set has none', async () => {
    const inbox = createInbox({ name: 'pay', store });
    await inbox.process(m1, () => Promise.reject(new Error('a first owner'))).catch(() => undefined);
    const seen: unknown[] = [];
    await inbox.processBatch([m1, { ...m1, id: 'm2' }], async (messages, context) => {
      seen.push('token' in context, ...messages.map(message => typeof context.for(message).token));
      expect(() => context.for({ ...messages[0]! })).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
    });
    expect(seen).toEqual([false, 'bigint', 'bigint']);
  });

  test('an owner whose lease ran out is replaced; what he still completes is refused, and he learns who was faster', async () => {
    const [old, next] = [createInbox({ name: 'pay', store, clock }), createInbox({ name: 'pay', store, clock })];
    const held = gate();
    const tokens: bigint[] = [];
    const stale = old.process(m1, async (_, context) => {
      tokens.push(context.token);
      await held.pass();
      return 'old';
    });
    await held.started;
    clock.advance(LEASE_MS + 1);
    const outcome = await next.process(m1, (_, context) => {
      tokens.push(context.token);
      return 'new';
    });
    expect(outcome).toEqual({ status: 'processed', result: 'new' });
    held.open();
    expect(await stale).toEqual({ status: 'duplicate', cause: 'completed', result: 'new' });
    expect(tokens[1]! > tokens[0]!).toBe(true);
  });
});

describe('a handler that overruns its time', () => {
  const options = { name: 'pay', timeoutMs: 40, retries: { attempts: 2, minMs: 1, maxMs: 1 } };

  test('keeps its lease, since it may still have its effect; when it ends after all, that is the one effect', async () => {
    const held = gate();
    let calls = 0;
    const overrun = Promise.withResolvers<void>();
    const consumer = createConsumer({
      ...options,
      store,
      handle: async (_, context) => {
        calls++;
        context.signal.addEventListener('abort', () => overrun.resolve());
        await held.pass();
      },
    });
    const running = consumer.run({ source: memorySource([m1]) });
    await overrun.promise;
    await until('the message is tried again', () => consumer.summary.failed === 1);
    await expect(createInbox({ name: 'other', store }).process(m1, () => 1)).resolves.toMatchObject({
      status: 'processed',
    });
    held.open();
    expect(await running).toMatchObject({ processed: 1, failed: 1, deadLetters: 0 });
    expect([calls, await done()]).toEqual([1, 1]);
  });

  test('and when it never ends, the lease does: the next owner has a higher token', async () => {
    const tokens: bigint[] = [];
    const consumer = createConsumer({
      ...options,
      store,
      clock,
      handle: async (_, context) => {
        tokens.push(context.token);
        if (tokens.length === 1) await new Promise(() => undefined);
      },
    });
    expect(await consumer.run({ source: memorySource([m1]) })).toMatchObject({ processed: 1, failed: 1 });
    expect(tokens[1]! > tokens[0]!).toBe(true);
    expect(clock.slept.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThanOrEqual(LEASE_MS - 1);
  });

  test('those behind it in the batch are handled once, also when it ends while they are', async () => {
    const held = gate();
    const calls: string[] = [];
    const consumer = createConsumer({
      ...options,
      retries: { attempts: 1 },
      store,
      clock,
      handle: async message => {
        calls.push(message.id);
        if (message.id === 'm1') await held.pass();
        if (message.id === 'm2') {
          held.open();
          await new Promise(resolve => setImmediate(resolve));
        }
      },
    });
    const source = deliverySource(['m1', 'm2', 'm3', 'm4'].map(id => ({ id })));
    await consumer.run({ source });
    expect(source.outcomes).toEqual(['dead-lettered', 'processed', 'processed', 'processed']);
    expect(calls).toEqual(['m1', 'm2', 'm3', 'm4']);
  });

  test('a set that overruns decides nothing any more: its late rejection is for the next owner to make', async () => {
    const held = gate();
    const ended = Promise.withResolvers<void>();
    const consumer = createConsumer({
      ...options,
      retries: { attempts: 1 },
      store,
      handleBatch: async (messages, context) => {
        await held.pass();
        context.reject(messages[0]!, 'closed');
        setImmediate(ended.resolve);
      },
    });
    const source = deliverySource([{ id: 'm1' }]);
    await consumer.run({ source });
    held.open();
    await ended.promise;
    expect(source.outcomes).toEqual(['dead-lettered']);
    expect([consumer.summary.deadLetters, kinds()]).toEqual([1, [['m1', 'attempts']]]);
  });

  test('a stop at its deadline leaves the lease of the running one alone and gives the others up', async () => {
    const held = gate();
    const calls: string[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store,
      handle: async message => {
        calls.push(message.id);
        await held.pass();
      },
    });
    const source = deliverySource([{ id: 'm1' }, { id: 'm2' }]);
    const running = consumer.run({ source });
    await held.started;
    expect(await consumer.stop({ withinMs: 10 })).toEqual({ abandoned: ['m1', 'm2'] });
    await running;
    expect(source.outcomes).toEqual([undefined, undefined]);
    const inbox = createInbox({ name: 'elsewhere', store, busyWaitMs: 0 });
    await inbox.open();
    expect([await claimOf('m1'), calls]).toEqual(['busy', ['m1']]);
    held.open();
    await until('the one that ran on is recorded', async () => (await claimOf('m1')) === 'duplicate');
    expect(calls).toEqual(['m1']);
  });

  async function claimOf(id: string): Promise<string> {
    // The same way of making ids as the consumer's, which is the header.
    const probe = createConsumer({ name: 'pay', store, busyWaitMs: 0, handle: () => undefined });
    const source = deliverySource([{ id }], { retryLater: true });
    await probe.run({ source });
    return source.outcomes[0] === 'retry-later' ? 'busy' : (source.outcomes[0] ?? 'nothing');
  }
});

describe('batches', () => {
  test('context.reject sets one aside and completes the others; the rejected id is not done', async () => {
    let calls = 0;
    const consumer = createConsumer({
      name: 'pay',
      store,
      handleBatch: (messages, context) => {
        calls++;
        for (const message of messages) if (message.id === 'm2') context.reject(message, 'no such account');
      },
    });
    const source = deliverySource(['m1', 'm2', 'm3', 'm2', 'm1'].map(id => ({ id })));
    const summary = await consumer.run({ source });
    // The second copy of m2 is claimed anew, since the first one was not done.
    expect(source.outcomes).toEqual(['processed', 'dead-lettered', 'processed', 'dead-lettered', 'duplicate']);
    expect(summary).toEqual({ processed: 2, duplicates: 1, conflicts: 0, deadLetters: 2, failed: 0 });
    expect([calls, kinds(), await done()]).toEqual([2, [['m2', 'rejected']], 2]);
  });

  test('one bad element is isolated, and no good one is handled twice by handle', async () => {
    const calls: string[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store,
      clock,
      retries: { attempts: 2 },
      handle: message => {
        calls.push(message.id);
        if (message.id === 'm4') throw new Error('cannot');
        if (message.id === 'm6') throw new Reject('closed');
      },
    });
    const summary = await consumer.run({
      source: memorySource(
        Array.from({ length: 10 }, (_, i) => ({ id: `m${i}` })),
        { retryLater: false },
      ),
    });
    expect(summary).toEqual({ processed: 8, duplicates: 0, conflicts: 0, deadLetters: 2, failed: 2 });
    expect(calls).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm4', 'm5', 'm6', 'm7', 'm8', 'm9']);
    expect(kinds()).toEqual([
      ['m4', 'attempts'],
      ['m6', 'rejected'],
    ]);
  });

  test('a set that fails is halved until the bad one stands alone', async () => {
    const sets: string[][] = [];
    const consumer = createConsumer({
      name: 'pay',
      store,
      clock,
      retries: { attempts: 1 },
      handleBatch: messages => {
        sets.push(messages.map(message => message.id));
        if (messages.some(message => message.id === 'm5')) throw new Error('cannot');
      },
    });
    const summary = await consumer.run({
      source: memorySource(
        Array.from({ length: 8 }, (_, i) => ({ id: `m${i}` })),
        { retryLater: false },
      ),
    });
    expect(summary).toEqual({ processed: 7, duplicates: 0, conflicts: 0, deadLetters: 1, failed: 1 });
    const good = sets.filter(set => !set.includes('m5')).flat();
    expect([...good].sort()).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm6', 'm7']);
  });

  test('messages whose lease would run out while they wait for their turn are given up and claimed again', async () => {
    const groups: number[] = [];
    const reach = ({ step, edge, ids }: PointAt) => {
      if (step === 'claim' && edge === 'before') groups.push(ids.length);
    };
    const consumer = createConsumer({
      name: 'pay',
      store,
      clock,
      timeoutMs: 1_000,
      leaseMs: 3_000,
      handle: () => clock.advance(800),
    });
    const source = memorySource(Array.from({ length: 8 }, (_, i) => ({ id: `m${i}` })));
    expect(await consumer.run({ source, points: { reach } })).toMatchObject({ processed: 8, failed: 0 });
    // 3 × 800 ms leave less of the lease than the next handler may take.
    expect(groups).toEqual([8, 5, 2]);
  });

  test("deadLetter: 'key' sets later messages of the key aside, and they are not done", async () => {
    const consumer = createConsumer({
      name: 'pay',
      store,
      deadLetter: 'key',
      maxBatch: 2,
      handle: message => {
        if (message.id === 'm0') throw new Reject('closed');
      },
    });
    const source = deliverySource(
      Array.from({ length: 6 }, (_, i) => ({ id: `m${i}`, key: i % 2 === 0 ? 'even' : 'odd' })),
    );
    await consumer.run({ source });
    expect(kinds()).toEqual([
      ['m0', 'rejected'],
      ['m2', 'behind'],
      ['m4', 'behind'],
    ]);
    expect(await done()).toBe(3);
  });
});

describe('trouble', () => {
  test('Unavailable: the lane pauses, no attempt is spent, what is done stays done', async () => {
    const calls: string[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store,
      clock,
      retries: { attempts: 1 },
      handle: message => {
        calls.push(message.id);
        if (message.id === 'm2' && calls.filter(id => id === 'm2').length < 4) throw new Unavailable('the bank');
      },
    });
    const source = memorySource(
      ['m1', 'm2', 'm3'].map(id => ({ id })),
      { retryLater: false },
    );
    expect(await consumer.run({ source })).toEqual({
      processed: 3,
      duplicates: 0,
      conflicts: 0,
      deadLetters: 0,
      failed: 0,
    });
    expect(calls).toEqual(['m1', 'm2', 'm2', 'm2', 'm2', 'm3']);
  });

  test('a store that fails when the handler is done: it is recorded when the store is back, and not done again', async () => {
    let failures = 3;
    const { promise, name, capabilities, positions } = store;
    const flaky: LeaseStore = {
      promise,
      name,
      capabilities,
      positions,
      staleCalls: 0,
      ping: () => store.ping(),
      stats: () => store.stats(),
      close: () => store.close(),
      open: async (consumer: ConsumerRegistration) => {
        const inbox = await store.open(consumer);
        return {
          ...inbox,
          complete: (items: Parameters<typeof inbox.complete>[0]) => {
            if (failures-- > 0) throw new NevertwiceError('NT_STORE_DOWN', 'the connection was lost');
            return inbox.complete(items);
          },
        };
      },
    };
    const calls: string[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store: flaky,
      clock,
      handle: message => void calls.push(message.id),
    });
    const source = deliverySource([{ id: 'm1' }, { id: 'm2' }]);
    expect(await consumer.run({ source })).toEqual({
      processed: 2,
      duplicates: 0,
      conflicts: 0,
      deadLetters: 0,
      failed: 0,
    });
    expect([calls, source.outcomes, await done()]).toEqual([['m1', 'm2'], ['processed', 'processed'], 2]);
  });

  test('a lost ack: the copy is a duplicate', async () => {
    const broker = memoryBroker({ partitions: 1 });
    broker.loseAcks(1);
    broker.send({ id: 'm1' });
    let effects = 0;
    const consumer = createConsumer({
      name: 'pay',
      store,
      source: broker.source({ finite: true }),
      handle: () => void effects++,
    });
    const running = consumer.run();
    await until('the first delivery is done', () => consumer.summary.processed === 1);
    broker.expire();
    expect(await running).toMatchObject({ processed: 1, duplicates: 1 });
    expect(effects).toBe(1);
  });

  test('a store that was closed under the consumer stops it with the reason', async () => {
    const broker = memoryBroker({ partitions: 1 });
    broker.send({ id: 'm1' });
    const consumer = createConsumer({ name: 'pay', store, handle: () => store.close() });
    const running = consumer.run({ source: broker.source() });
    running.catch(() => undefined);
    await until('the first one is handled', () => consumer.summary.processed === 1);
    broker.send({ id: 'm2' });
    await expect(running).rejects.toMatchObject({ code: 'NT_CONFIG', message: expect.stringContaining('closed') });
    expect(broker.pending('pay')).toBe(1);
  });
});

describe('what only databases can do is refused by name', () => {
  test.each([
    ['setup', { setup: async () => undefined }, 'setup needs a transactional store'],
    ['overlap', { overlap: 'by-key' as const }, "overlap: 'by-key' cannot be used with memory"],
  ])('%s', async (_, options, message) => {
    const consumer = createConsumer({ name: 'pay', store, ...options, handle: () => expect.unreachable() });
    const source = memorySource([m1]);
    await expect(consumer.run({ source })).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringContaining(message),
    });
    // And the name is free again.
    const next = createConsumer({ name: 'pay', store, handle: () => undefined });
    expect(await next.run({ source })).toMatchObject({ processed: 1 });
  });
});
