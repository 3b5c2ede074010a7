import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox, type LeaseContext, type LeaseInbox, NevertwiceError } from '../../src/index.ts';
import { memoryBroker, memoryStore } from '../../src/memory.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { until } from '../support/until.ts';
import { deliverySource } from './deliveries.ts';
import { viewOf } from './lease-view.ts';
import { warningsOf } from './warnings.ts';

const LEASE_MS = 120;
const m1 = { id: 'm1', body: { amount: 500 } };
let store: ReturnType<typeof memoryStore>;
beforeEach(() => {
  store = memoryStore();
});
afterEach(() => store.close());

const storeWith = (change: (inbox: LeaseInbox) => Partial<LeaseInbox>) => viewOf(store, change);

const timesPassed = (leases: number) => {
  const end = performance.now() + leases * LEASE_MS;
  return until(`${leases} leases have passed`, () => performance.now() > end);
};

const down = () => Promise.reject(new NevertwiceError('NT_STORE_DOWN', 'the connection was lost'));

describe('renewal', () => {
  test('a handler that takes longer than its lease keeps it, and a copy stays busy all the time', async () => {
    const inbox = createInbox({ name: 'pay', store, leaseMs: LEASE_MS });
    const other = createInbox({ name: 'pay', store, leaseMs: LEASE_MS, busyWaitMs: 0 });
    const started = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const working = inbox.process(m1, async (_, { signal }) => {
      started.resolve();
      await goOn.promise;
      signal.throwIfAborted();
      return 'mine';
    });
    await started.promise;
    await timesPassed(3);
    await expect(other.process(m1, () => expect.unreachable())).rejects.toMatchObject({ code: 'NT_BUSY' });
    goOn.resolve();
    expect(await working).toEqual({ status: 'processed', result: 'mine' });
    expect(store.staleCalls).toBe(0);
  });

  test('the messages that wait behind it in the batch keep theirs, and each is handled once', async () => {
    const calls: string[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store,
      leaseMs: LEASE_MS,
      handle: async message => {
        calls.push(message.id);
        if (message.id === 'm1') await timesPassed(3);
      },
    });
    const running = consumer.run({ source: deliverySource(['m1', 'm2', 'm3'].map(id => ({ id }))) });
    await until('the first is at work', () => calls.length === 1);
    await timesPassed(2);
    const other = createConsumer({ name: 'pay', store: storeWith(() => ({})), busyWaitMs: 0, handle: () => undefined });
    const copies = deliverySource([{ id: 'm3' }], { retryLater: true });
    await other.run({ source: copies });
    expect(copies.outcomes).toEqual(['retry-later']);
    expect(await running).toMatchObject({ processed: 3, failed: 0 });
    expect(calls).toEqual(['m1', 'm2', 'm3']);
  });

  test('C85: who was replaced is told at the next renewal: its signal aborts, no attempt is spent, the other one decides', async () => {
    const replaced = Promise.withResolvers<void>();
    const late = storeWith(inbox => ({
      // As over a network that was cut and is there again.
      renew: async (items, leaseMs) => {
        await replaced.promise;
        return inbox.renew(items, leaseMs);
      },
    }));
    const started = Promise.withResolvers<void>();
    const reasons: unknown[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store: late,
      leaseMs: LEASE_MS,
      retries: { attempts: 1 },
      handle: async (_, { signal }: LeaseContext) => {
        started.resolve();
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      },
    });
    const broker = memoryBroker({ partitions: 1 });
    broker.send(m1);
    const running = consumer.run({ source: broker.source({ finite: true }) });
    await started.promise;
    await timesPassed(1.2);
    const next = createConsumer({ name: 'pay', store: storeWith(() => ({})), handle: () => void reasons.push('next') });
    await next.run({ source: deliverySource([m1]) });
    replaced.resolve();
    expect(await running).toEqual({ processed: 0, duplicates: 1, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(reasons).toEqual(['next']);
    expect(store.staleCalls).toBe(1);
  });

  test('of a handler that has ended nothing is renewed', async () => {
    let renewals = 0;
    const counting = storeWith(inbox => ({
      renew: (items, leaseMs) => {
        renewals += items.length;
        return inbox.renew(items, leaseMs);
      },
    }));
    const inbox = createInbox({ name: 'pay', store: counting, leaseMs: LEASE_MS });
    await inbox.process(m1, () => timesPassed(1.5));
    const before = renewals;
    expect(before).toBeGreaterThanOrEqual(2);
    await timesPassed(1.5);
    expect(renewals).toBe(before);
  });

  test('while it is recorded what a handler has done nothing is renewed: a renewal behind it would count as a stale owner', async () => {
    let [renewals, atEnd] = [0, 0];
    const slow = storeWith(inbox => ({
      renew: (items, leaseMs) => {
        renewals += items.length;
        return inbox.renew(items, leaseMs);
      },
      complete: async items => {
        atEnd = renewals;
        const recorded = await inbox.complete(items);
        await timesPassed(1.5);
        return recorded;
      },
    }));
    const inbox = createInbox({ name: 'pay', store: slow, leaseMs: LEASE_MS });
    expect(await inbox.process(m1, () => timesPassed(0.5))).toMatchObject({ status: 'processed' });
    expect([renewals, store.staleCalls]).toEqual([atEnd, 0]);
  });

  test('what waits behind a slow completion to be recorded keeps its lease, so that nobody does it again', async () => {
    const held = Promise.withResolvers<void>();
    let first = true;
    const slow = storeWith(inbox => ({
      complete: async items => {
        const recorded = inbox.complete(items);
        if (first) {
          first = false;
          await held.promise;
        }
        return recorded;
      },
    }));
    const handled = Promise.withResolvers<void>();
    const consumer = createConsumer({
      name: 'pay',
      store: slow,
      leaseMs: LEASE_MS,
      handle: message => {
        if (message.id === 'm2') handled.resolve();
      },
    });
    const running = consumer.run({ source: deliverySource([{ id: 'm1' }, { id: 'm2' }]) });
    await handled.promise;
    await timesPassed(2.5);
    const again: string[] = [];
    const other = createConsumer({
      name: 'pay',
      store: storeWith(() => ({})),
      busyWaitMs: 0,
      handle: ({ id }) => void again.push(id),
    });
    const elsewhere = other.run({ source: deliverySource([{ id: 'm2' }]) });
    await timesPassed(0.5);
    expect(again).toEqual([]);
    held.resolve();
    expect(await running).toMatchObject({ processed: 2, failed: 0 });
    expect(await elsewhere).toMatchObject({ processed: 0, duplicates: 1 });
  });

  test('a store that is down at a renewal loses nobody a lease: the handler goes on and is recorded', async () => {
    let fails = 2;
    const flaky = storeWith(inbox => ({
      renew: (items, leaseMs) => (fails-- > 0 ? down() : inbox.renew(items, leaseMs)),
    }));
    const inbox = createInbox({ name: 'pay', store: flaky, leaseMs: LEASE_MS });
    const outcome = await inbox.process(m1, async (_, { signal }) => {
      await until('it was asked again', () => fails < 0);
      signal.throwIfAborted();
      return 'mine';
    });
    expect(outcome).toEqual({ status: 'processed', result: 'mine' });
  });

  test('while a failed message waits for its next try nothing is renewed, and nobody is told that it was lost', async () => {
    const lost = await warningsOf('NT_LEASE_LOST');
    let calls = 0;
    const consumer = createConsumer({
      name: 'pay',
      store,
      leaseMs: LEASE_MS,
      retries: { attempts: 2, minMs: 2 * LEASE_MS, maxMs: 2 * LEASE_MS },
      clock: { ...systemClock, random: () => 0.999 },
      handle: () => {
        if (++calls === 1) throw new Error('again');
      },
    });
    expect(await consumer.run({ source: deliverySource([m1]) })).toMatchObject({ processed: 1, failed: 1 });
    expect([await lost.read(), store.staleCalls]).toEqual([[], 0]);
  });

  test('what was claimed beside a message whose dead letter cannot be written is given back, and claimed again at once', async () => {
    let fails = 1;
    const flaky = storeWith(inbox => ({
      deadLetter: letters => (fails-- > 0 ? down() : inbox.deadLetter(letters)),
    }));
    const calls: string[] = [];
    const consumer = createConsumer({ name: 'pay', store: flaky, handle: message => void calls.push(message.id) });
    await consumer.run({ source: deliverySource([m1]) });
    const source = deliverySource([{ ...m1, body: { amount: 7 } }, { id: 'm2' }]);
    expect(await consumer.run({ source })).toMatchObject({ processed: 2, conflicts: 1 });
    expect([calls, source.outcomes]).toEqual([
      ['m1', 'm2'],
      ['conflict', 'processed'],
    ]);
  });

  test('C86: an event loop that stood still is warned of, with how long', async () => {
    const inbox = createInbox({ name: 'pay', store, leaseMs: LEASE_MS });
    const warnings = await warningsOf('NT_LEASE_LATE');
    await inbox.process(m1, async () => {
      const end = performance.now() + LEASE_MS;
      while (performance.now() < end);
      await timesPassed(0.5);
    });
    expect(await warnings.read()).toEqual([expect.stringMatching(/renewed \d+ ms late/)]);
  });
});

describe('recording', () => {
  test('what handlers have done is recorded while the next one is at work, one call at a time, each once', async () => {
    const calls: number[] = [];
    const held = Promise.withResolvers<void>();
    const slow = storeWith(inbox => ({
      complete: async items => {
        calls.push(items.length);
        await held.promise;
        return inbox.complete(items);
      },
    }));
    const seen: string[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store: slow,
      handle: message => {
        seen.push(message.id);
        if (message.id === 'm4') held.resolve();
        return message.id;
      },
    });
    const source = deliverySource(['m1', 'm2', 'm3', 'm4'].map(id => ({ id })));
    expect(await consumer.run({ source })).toMatchObject({ processed: 4, failed: 0 });
    expect([seen, calls]).toEqual([
      ['m1', 'm2', 'm3', 'm4'],
      [1, 3],
    ]);
    expect(source.outcomes).toEqual(['processed', 'processed', 'processed', 'processed']);
  });

  test('when recording fails, no further handler starts, and what is done is recorded once the store is back', async () => {
    let fails = 1;
    const calls: string[] = [];
    const flaky = storeWith(inbox => ({
      complete: items => (fails-- > 0 ? down() : inbox.complete(items)),
    }));
    const atFailure: number[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store: { ...flaky, ping: async () => void atFailure.push(calls.length) },
      handle: async message => {
        calls.push(message.id);
        await new Promise(resolve => setImmediate(resolve));
      },
    });
    const source = deliverySource(['m1', 'm2', 'm3', 'm4'].map(id => ({ id })));
    expect(await consumer.run({ source })).toMatchObject({ processed: 4, duplicates: 0, failed: 0 });
    expect(calls).toEqual(['m1', 'm2', 'm3', 'm4']);
    expect(atFailure[0]).toBeLessThan(4);
  });

  test('what a handler of a consumer returns is kept by nobody', async () => {
    const kept: unknown[] = [];
    const looking = storeWith(inbox => ({
      complete: items => {
        kept.push(...items.map(item => item.result));
        return inbox.complete(items);
      },
    }));
    const consumer = createConsumer({ name: 'pay', store: looking, handle: () => ({ a: 'response' }) });
    await consumer.run({ source: deliverySource([m1]) });
    expect(kept).toEqual([undefined]);
  });
});

describe("mode: 'at-most-once'", () => {
  test('C79: is marked as done before the handler begins, so that what a stop interrupts is lost', async () => {
    const seen: string[] = [];
    const started = Promise.withResolvers<void>();
    const consumer = createConsumer({
      name: 'remind',
      store,
      mode: 'at-most-once',
      handle: async () => {
        seen.push(String((await store.stats())[0]?.processed));
        started.resolve();
        await new Promise(() => undefined);
      },
    });
    const running = consumer.run({ source: deliverySource([m1]) });
    running.catch(() => undefined);
    await started.promise;
    await consumer.stop({ withinMs: 1 });
    await running.catch(() => undefined);
    expect(seen).toEqual(['1']);
    const again = createConsumer({
      name: 'remind',
      store,
      mode: 'at-most-once',
      handle: () => void seen.push('again'),
    });
    expect(await again.run({ source: deliverySource([m1]) })).toMatchObject({ processed: 0, duplicates: 1 });
    expect(seen).toEqual(['1']);
  });

  test('a handler that fails is not tried again: its message is a dead letter, and the others go on', async () => {
    const calls: string[] = [];
    const consumer = createConsumer({
      name: 'remind',
      store,
      mode: 'at-most-once',
      handle: message => {
        calls.push(message.id);
        if (message.id === 'm2') throw new Error('no such address');
      },
    });
    const source = deliverySource(['m1', 'm2', 'm3', 'm2'].map(id => ({ id })));
    expect(await consumer.run({ source })).toMatchObject({ processed: 2, failed: 1, deadLetters: 1 });
    expect(calls).toEqual(['m1', 'm2', 'm3']);
    expect(store.deadLetters('remind').map(letter => letter.reason)).toEqual(['no such address']);
  });

  test('a store that goes away while it marks loses nothing: the same owner marks again, and then handles', async () => {
    const marks: string[] = [];
    const flaky = storeWith(inbox => ({
      complete: async items => {
        const ids = items.map(({ claim }) => Buffer.from(claim.key).subarray(1).toString());
        const again = ids.map(id => marks.includes(id));
        marks.push(...ids);
        const owned = await inbox.complete(items);
        // Recorded, and the answer is lost. Said again by the same owner it is true, as with Redis.
        if (marks.length === 1) await down();
        return owned.map((own, i) => own || again[i]!);
      },
    }));
    const calls: string[] = [];
    const consumer = createConsumer({
      name: 'remind',
      store: flaky,
      mode: 'at-most-once',
      handle: message => void calls.push(message.id),
    });
    const source = deliverySource(['m1', 'm2'].map(id => ({ id })));
    expect(await consumer.run({ source })).toMatchObject({ processed: 2, duplicates: 0, failed: 0 });
    expect(calls).toEqual(['m1', 'm2']);
    expect(marks).toEqual(['m1', 'm1', 'm2']);
  });

  test('a set is marked together; what it rejects is set aside', async () => {
    const sets: string[][] = [];
    const consumer = createConsumer({
      name: 'remind',
      store,
      mode: 'at-most-once',
      handleBatch: (messages, context) => {
        sets.push(messages.map(message => message.id));
        context.reject(messages[1]!, 'closed');
      },
    });
    const source = deliverySource(['m1', 'm2', 'm3'].map(id => ({ id })));
    expect(await consumer.run({ source })).toMatchObject({ processed: 2, deadLetters: 1 });
    expect(sets).toEqual([['m1', 'm2', 'm3']]);
    expect(source.outcomes).toEqual(['processed', 'dead-lettered', 'processed']);
  });
});

describe('onStoreDown', () => {
  test("C89: 'pause' holds what is in hand until the store answers, and no handler runs before", async () => {
    let claims = 0;
    let calls = 0;
    const flaky = storeWith(inbox => ({
      claim: (claimed, leaseMs) => (claims++ < 3 ? down() : inbox.claim(claimed, leaseMs)),
    }));
    const consumer = createConsumer({ name: 'pay', store: flaky, handle: () => void calls++ });
    const source = deliverySource([m1]);
    expect(await consumer.run({ source })).toEqual({
      processed: 1,
      duplicates: 0,
      conflicts: 0,
      deadLetters: 0,
      failed: 0,
    });
    expect([claims, calls]).toEqual([4, 1]);
  });

  test("'throw' ends the run with the reason, and nothing is settled", async () => {
    const consumer = createConsumer({
      name: 'pay',
      store: storeWith(() => ({ claim: down })),
      onStoreDown: 'throw',
      handle: () => expect.unreachable(),
    });
    const source = deliverySource([m1]);
    await expect(consumer.run({ source })).rejects.toMatchObject({ code: 'NT_STORE_DOWN' });
    expect(source.outcomes).toEqual([undefined]);
  });

  test("'process' runs handlers without protection, counts each, and gives a token that a fence refuses", async () => {
    let claims = 0;
    const tokens: bigint[] = [];
    const flaky = storeWith(inbox => ({
      claim: (claimed, leaseMs) => (claims++ < 1 ? down() : inbox.claim(claimed, leaseMs)),
    }));
    const consumer = createConsumer({
      name: 'pay',
      store: flaky,
      onStoreDown: 'process',
      maxBatch: 2,
      handle: (_, { token }: LeaseContext) => void tokens.push(token),
    });
    const warnings = await warningsOf('NT_UNPROTECTED');
    const source = deliverySource(['m1', 'm2', 'm3', 'm4'].map(id => ({ id })));
    const summary = await consumer.run({ source });
    expect(summary).toMatchObject({ processed: 4, failed: 0 });
    expect(summary.unprotected).toBe(tokens.filter(token => token === 0n).length);
    expect(source.outcomes).toEqual(['processed', 'processed', 'processed', 'processed']);
    expect(tokens.filter(token => token === 0n).length).toBeGreaterThan(0);
    expect(tokens.filter(token => token > 0n).length).toBeGreaterThan(0);
    expect(await warnings.read()).toHaveLength(1);
  });

  test("'process': a handler that is done when the store fails is not done again", async () => {
    let calls = 0;
    const consumer = createConsumer({
      name: 'pay',
      store: storeWith(() => ({ complete: down })),
      onStoreDown: 'process',
      handle: () => void calls++,
    });
    expect(await consumer.run({ source: deliverySource([m1]) })).toMatchObject({ processed: 1, unprotected: 1 });
    expect(calls).toBe(1);
  });
});
