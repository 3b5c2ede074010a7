import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createConsumer, Reject } from '../../src/index.ts';
import { memoryBroker, memorySource } from '../../src/memory.ts';
import { testConsumer } from '../../src/testing/index.ts';
import { SEED } from '../support/random.ts';
import { until } from '../support/until.ts';
import { deliverySource } from './deliveries.ts';
import { watched } from './sources.ts';
import { type AnyStore, allStores, freshName, type Wallet } from './stores.ts';
import { warningsOf } from './warnings.ts';

describe.each(allStores)('$name', ({ name: storeName, create }) => {
  let s: AnyStore;
  let wallet: Wallet;
  beforeAll(async () => {
    s = await create();
    wallet = await s.wallet();
  });
  afterAll(() => s.drop());

  test('each type goes to its own handler with its own schema; handle and handleBatch side by side', async () => {
    const calls: unknown[] = [];
    const consumer = createConsumer({
      name: freshName(),
      store: s.store,
      handlers: {
        paid: {
          body: z.object({ amount: z.number() }),
          handle: (message, context) => {
            calls.push(['paid', message.body.amount]);
            return wallet.credit(context, 1);
          },
        },
        shipped: {
          body: z.object({ parcel: z.string() }),
          handleBatch: (messages, context) => {
            calls.push(['shipped', messages.map(message => message.body.parcel)]);
            return wallet.credit(context, messages.length);
          },
        },
      },
    });
    const source = deliverySource([
      { id: 'm1', key: 'a', type: 'paid', body: { amount: 1 } },
      { id: 'm2', key: 'b', type: 'shipped', body: { parcel: 'p1' } },
      { id: 'm3', key: 'c', type: 'paid', body: { amount: 2 } },
      { id: 'm4', key: 'd', type: 'shipped', body: { parcel: 'p2' } },
      { id: 'm5', key: 'e', type: 'shipped', body: { amount: 3 } },
      { id: 'm6', key: 'b', type: 'paid', body: { amount: 4 } },
    ]);
    await consumer.run({ source });
    expect(source.outcomes).toEqual(['processed', 'processed', 'processed', 'processed', 'dead-lettered', 'processed']);
    // One call for both parcels, and the payment of `b` stays behind the parcel of `b`.
    expect(calls).toEqual([
      ['paid', 1],
      ['paid', 2],
      ['shipped', ['p1', 'p2']],
      ['paid', 4],
    ]);
  });

  test('whatever the mix of types and keys: each message once, no message before an earlier one of its key', async () => {
    const message = fc.record({
      key: fc.constantFrom('a', 'b', 'c', undefined),
      type: fc.constantFrom('one', 'two', 'set', 'pair'),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(message, { minLength: 1, maxLength: 24 }),
        fc.integer({ min: 1, max: 24 }),
        async (messages, maxBatch) => {
          const order: number[] = [];
          const sets: string[][] = [];
          const note = (type: string) => ({
            handle: (m: { type: string | undefined; body: any }, context: unknown) => {
              expect(m.type).toBe(type);
              order.push(m.body.i);
              return wallet.credit(context, 0);
            },
          });
          const noteAll = (type: string) => ({
            handleBatch: (list: readonly { type: string | undefined; body: any }[], context: unknown) => {
              sets.push([...new Set(list.map(m => m.type!)), type]);
              order.push(...list.map(m => m.body.i));
              return wallet.credit(context, 0);
            },
          });
          const handlers = { one: note('one'), two: note('two'), set: noteAll('set'), pair: noteAll('pair') };
          const consumer = createConsumer({ name: freshName(), store: s.store, maxBatch, handlers } as never);
          const source = deliverySource(messages.map((m, i) => ({ id: `m${i}`, ...m, body: { i } })));
          await consumer.run({ source });
          expect(source.outcomes).toEqual(messages.map(() => 'processed'));
          expect([...order].sort((a, b) => a - b)).toEqual(messages.map((_, i) => i));
          for (const key of ['a', 'b', 'c', undefined]) {
            const ofKey = order.filter(i => messages[i]!.key === key);
            expect(ofKey).toEqual([...ofKey].sort((a, b) => a - b));
          }
          for (const [seen, type, ...more] of sets) expect([seen, more]).toEqual([type, []]);
        },
      ),
      { seed: SEED, numRuns: storeName === 'memory' ? 200 : 25 },
    );
  });

  test('a failure in a mixed batch takes only its own message along', async () => {
    const name = freshName();
    const mine = await s.wallet();
    const consumer = createConsumer({
      name,
      store: s.store,
      retries: { attempts: 1 },
      handlers: {
        one: {
          handle: async (message, context) => {
            await mine.credit(context, storeName === 'memory' && message.id === 'm3' ? 0 : 1);
            if (message.id === 'm3') throw new Error('cannot');
          },
        },
        set: {
          handleBatch: async (messages, context) => {
            const bad = messages.filter(message => message.id === 'm6');
            for (const message of bad) context.reject(message, 'no such account');
            await mine.credit(context, messages.length - bad.length);
          },
        },
      },
    });
    const source = deliverySource(
      Array.from({ length: 10 }, (_, i) => ({ id: `m${i}`, key: `k${i}`, type: i % 2 === 0 ? 'set' : 'one' })),
    );
    expect(await consumer.run({ source })).toMatchObject({ processed: 8, deadLetters: 2 });
    expect((await s.deadLetters(name)).map(({ id, kind }) => [id, kind]).sort()).toEqual([
      ['m3', 'attempts'],
      ['m6', 'rejected'],
    ]);
    expect(await mine.balance()).toBe(8);
  });

  describe('a type that nobody handles', () => {
    const two = [
      { id: 'm1', type: 'known', body: {} },
      { id: 'm2', type: 'new', body: {} },
      { id: 'm3', body: {} },
    ];
    const known = { known: { handle: (_: unknown, context: unknown) => wallet.credit(context, 1) } };

    test('is dead-lettered by default, and handled once there is a handler and it comes again', async () => {
      const name = freshName();
      const source = deliverySource(two);
      await createConsumer({ name, store: s.store, handlers: known }).run({ source });
      expect(source.outcomes).toEqual(['processed', 'dead-lettered', 'dead-lettered']);
      expect(await s.deadLetters(name)).toMatchObject([
        { id: 'm2', kind: 'unknown-type', reason: 'no handler for messages of type "new"' },
        { id: 'm3', kind: 'unknown-type', reason: 'no handler for messages without a type' },
      ]);
      const again = deliverySource(two);
      await createConsumer({ name, store: s.store, handlers: { ...known, new: known.known } }).run({ source: again });
      expect(again.outcomes).toEqual(['duplicate', 'processed', 'dead-lettered']);
      // The other way round: a handler is gone, and a copy of what it did arrives.
      const copy = deliverySource([two[1]!]);
      await createConsumer({ name, store: s.store, handlers: known }).run({ source: copy });
      expect(copy.outcomes).toEqual(['duplicate']);
    });

    test("'ignore' acks it, records nothing and says so", async () => {
      const name = freshName();
      const warnings = await warningsOf('NT_UNKNOWN_TYPE');
      const source = deliverySource(two);
      const summary = await createConsumer({ name, store: s.store, handlers: known, onUnknownType: 'ignore' }).run({
        source,
      });
      expect(source.outcomes).toEqual(['processed', 'ignored', 'ignored']);
      expect(summary).toEqual({ processed: 1, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
      expect([await s.deadLetters(name), await s.done(name)]).toEqual([[], 1]);
      expect(await warnings.read()).toEqual([
        `${name}: no handler for messages of type "new"; such messages are ignored`,
        `${name}: no handler for messages without a type; such messages are ignored`,
      ]);
    });

    test("'refuse' stops the consumer with an error; nothing of it is acked, and nothing is lost", async () => {
      const name = freshName();
      const mine = await s.wallet();
      const broker = memoryBroker({ partitions: 1 });
      for (const message of two.slice(0, 2)) broker.send(message);
      const handler = { handle: (_: unknown, context: unknown) => mine.credit(context, 1) };
      const strict = createConsumer({ name, store: s.store, handlers: { known: handler }, onUnknownType: 'refuse' });
      await expect(strict.run({ source: broker.source() })).rejects.toMatchObject({
        code: 'NT_CONFIG',
        message: "no handler for messages of type \"new\"; add one, or set onUnknownType to 'dead-letter' or 'ignore'",
      });
      expect(broker.pending(name)).toBe(2);
      expect(await s.deadLetters(name)).toEqual([]);
      const both = createConsumer({
        name,
        store: s.store,
        handlers: { known: handler, new: handler },
        onUnknownType: 'refuse',
      });
      expect(await both.run({ source: broker.source({ finite: true }) })).toMatchObject({ processed: 2 });
      expect(await mine.balance()).toBe(2);
    });

    test("'refuse': what other lanes have in work is finished and settled first", async () => {
      const name = freshName();
      const broker = memoryBroker({ partitions: 2 });
      const started = Promise.withResolvers<void>();
      const goOn = Promise.withResolvers<void>();
      const consumer = createConsumer({
        name,
        store: s.store,
        concurrency: 2,
        onUnknownType: 'refuse',
        handlers: {
          known: {
            handle: async (_, context) => {
              started.resolve();
              await goOn.promise;
              await wallet.credit(context, 1);
            },
          },
        },
      });
      const watch = watched(broker.source());
      const running = consumer.run({ source: watch.source });
      running.catch(() => undefined);
      broker.send({ id: 'm1', type: 'known', partition: 0 });
      await started.promise;
      broker.send({ id: 'm2', type: 'new', partition: 1 });
      await until('the other lane has taken the unknown type', () => watch.mostUnsettled === 2);
      for (let i = 0; i < 20; i++) await nextTurn();
      expect(watch.settlements).toEqual([]);
      goOn.resolve();
      await expect(running).rejects.toMatchObject({ code: 'NT_CONFIG' });
      expect(consumer.summary.processed).toBe(1);
      expect([broker.pending(name), broker.committed(name)]).toEqual([1, [1n, 0n]]);
    });

    test.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', ''])(
      '%j is a name like any other',
      async type => {
        const source = deliverySource([{ id: 'm1', type }]);
        await createConsumer({ name: freshName(), store: s.store, handlers: known }).run({ source });
        expect(source.outcomes).toEqual(['dead-lettered']);
        const own = deliverySource([{ id: 'm1', type }]);
        const handlers = Object.fromEntries([[type, known.known]]);
        await createConsumer({ name: freshName(), store: s.store, handlers }).run({ source: own });
        expect(own.outcomes).toEqual(['processed']);
      },
    );
  });

  test('Reject from one type is as final as from another', async () => {
    const handlers = {
      one: {
        handle: () => {
          throw new Reject('closed');
        },
      },
      set: {
        handleBatch: () => {
          throw new Reject('closed too');
        },
      },
    };
    const consumer = createConsumer({ name: freshName(), store: s.store, handlers });
    await using t = await testConsumer(consumer);
    expect(await t.deliver({ id: 'm1', type: 'one', body: {} })).toBe('dead-lettered');
    expect(await t.deliver({ id: 'm2', type: 'set', body: {} })).toBe('dead-lettered');
    expect(consumer.summary).toMatchObject({ deadLetters: 2, failed: 0 });
  });
});

describe('options that cannot work are refused when the consumer is made', () => {
  const handle = () => undefined;
  test.each([
    ['no handler at all', {}, /exactly one of handle and handleBatch/],
    ['both', { handle, handleBatch: handle }, /exactly one/],
    ['neither for one type', { handlers: { paid: {} } }, /handlers\.paid needs exactly one/],
    ['handlers and a handler', { handlers: { paid: { handle } }, handle }, /either handlers by type, or one/],
    ['a body that is no schema', { handle, body: { type: 'object' } }, /Standard Schema/],
    ['a wrong onUnknownType', { handlers: { paid: { handle } }, onUnknownType: 'Ignore' }, /onUnknownType must be/],
    ['a wrong overlap', { handle, overlap: true }, /overlap must be 'by-key'/],
    ['overlap with a set-based handler', { handleBatch: handle, overlap: 'by-key' }, /overlap is for handle/],
    ['a wrong onConflict', { handle, onConflict: 'drop' }, /onConflict must be/],
    ['a wrong fingerprint', { handle, fingerprint: 'amount' }, /fingerprint must be/],
    ['an identity without a signature', { handle, identity: () => 'x' }, /identity must be/],
    ['a batch of nothing', { handle, maxBatch: 0 }, /maxBatch must be a whole number from 1 to 10000/],
    ['a lease too short to renew', { handle, leaseMs: 50 }, /leaseMs must be a whole number from 100/],
    ['a wrong mode', { handle, mode: 'exactly-once' }, /mode must be/],
    ['a wrong onStoreDown', { handle, onStoreDown: 'ignore' }, /onStoreDown must be/],
  ])('%s', (_, options, message) => {
    expect(() => createConsumer({ name: 'pay', ...options } as never)).toThrow(
      expect.objectContaining({ code: 'NT_CONFIG', message: expect.stringMatching(message) }),
    );
  });

  test('and what only shows at the start is refused there', async () => {
    const consumer = createConsumer({ name: 'pay', handle });
    await expect(consumer.run({ source: memorySource([]) })).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringContaining('no store'),
    });
  });
});
