import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createConsumer, Reject } from '../../src/index.ts';
import { manualClock } from './clock.ts';
import { deliverySource, type Given } from './deliveries.ts';
import { type AnyStore, allStores, freshName } from './stores.ts';

/** `odd` is another account, which must not be held up. */
const given: readonly Given[] = ['m0', 'm1', 'm2', 'm3', 'm4', 'm5'].map((id, i) => ({
  id,
  key: i % 2 === 0 ? 'even' : 'odd',
}));
const expected = ['processed', 'processed', 'dead-lettered', 'processed', 'dead-lettered', 'processed'];

describe.each(allStores)('$name', ({ name: storeName, create }) => {
  let s: AnyStore;
  beforeAll(async () => {
    s = await create();
  });
  afterAll(() => s.drop());

  const shapes = ['handle', 'handleBatch'] as const;
  const causes = ['a bad message', 'no id', 'Reject', 'failed tries'] as const;
  const cases = shapes.flatMap(shape =>
    causes.flatMap(cause => [500, 1].map(maxBatch => ({ shape, cause, maxBatch }))),
  );

  test.each(cases)(
    "deadLetter: 'key', $shape, batches of up to $maxBatch: $cause of m2 sets m4 aside behind it, and nothing before it",
    async ({ shape, cause, maxBatch }) => {
      const [name, wallet] = [freshName(), await s.wallet()];
      const fail = (message: { id: string }) => {
        if (message.id !== 'm2') return;
        if (cause === 'Reject') throw new Reject('closed');
        if (cause === 'failed tries') throw new Error('cannot');
      };
      const handler =
        shape === 'handle'
          ? {
              handle: async (message: { id: string }, context: unknown) => {
                fail(message);
                await wallet.credit(context, 1);
              },
            }
          : {
              handleBatch: async (messages: readonly { id: string }[], context: unknown) => {
                messages.forEach(fail);
                await wallet.credit(context, messages.length);
              },
            };
      const consumer = createConsumer({
        name,
        store: s.store,
        clock: manualClock(),
        deadLetter: 'key',
        retries: { attempts: 2 },
        maxBatch,
        ...handler,
      } as never);
      const source = deliverySource(
        given.map(one => {
          if (one.id !== 'm2') return one;
          if (cause === 'a bad message') return { ...one, value: '{' };
          return cause === 'no id' ? { key: 'even' } : one;
        }),
      );
      await consumer.run({ source });
      expect(source.outcomes).toEqual(expected);
      expect((await s.deadLetters(name)).map(({ id, kind }) => [id, kind])).toEqual([
        [
          cause === 'no id' ? undefined : 'm2',
          { 'a bad message': 'bad-message', 'no id': 'bad-id', Reject: 'rejected', 'failed tries': 'attempts' }[cause],
        ],
        ['m4', 'behind'],
      ]);
      expect([await wallet.balance(), await s.done(name)]).toEqual([4, 4]);
    },
  );

  // What a set has done outside a transaction cannot be taken back when it turns out that it should have waited.
  test.skipIf(storeName === 'memory')(
    "deadLetter: 'key' and context.reject: what the set did for a later message of the key is undone",
    async () => {
      const [name, wallet] = [freshName(), await s.wallet()];
      const consumer = createConsumer({
        name,
        store: s.store,
        deadLetter: 'key',
        handleBatch: async (messages, context) => {
          const bad = messages.filter(message => message.id === 'm2');
          for (const message of bad) context.reject(message, 'closed');
          await wallet.credit(context, messages.length - bad.length);
        },
      });
      const source = deliverySource(given);
      expect(await consumer.run({ source })).toEqual({
        processed: 4,
        duplicates: 0,
        conflicts: 0,
        deadLetters: 2,
        failed: 0,
      });
      expect(source.outcomes).toEqual(expected);
      expect((await s.deadLetters(name)).map(({ id, kind }) => [id, kind])).toEqual([
        ['m2', 'rejected'],
        ['m4', 'behind'],
      ]);
      expect(await wallet.balance()).toBe(4);
    },
  );

  test("deadLetter: 'key' on a source that takes messages back: none with a key is handed back, to be overtaken", async () => {
    const [name, wallet] = [freshName(), await s.wallet()];
    const handled: string[] = [];
    const consumer = createConsumer({
      name,
      store: s.store,
      clock: manualClock(),
      deadLetter: 'key',
      retries: { attempts: 2, deliveries: 5 },
      handle: async (message, context) => {
        if (message.id === 'm2' || message.id === 'free') throw new Error('cannot');
        await wallet.credit(context, 1);
        handled.push(message.id);
      },
    });
    const source = deliverySource([...given, { id: 'free' }], { retryLater: true });
    await consumer.run({ source });
    expect(source.outcomes).toEqual([...expected, 'retry-later']);
    expect((await s.deadLetters(name)).map(({ id, kind }) => [id, kind])).toEqual([
      ['m2', 'attempts'],
      ['m4', 'behind'],
    ]);
    expect(handled).not.toContain('m4');
  });

  test("deadLetter: 'message' (default): later messages of the key go on", async () => {
    const [name, wallet] = [freshName(), await s.wallet()];
    const consumer = createConsumer({
      name,
      store: s.store,
      handle: async (message, context) => {
        if (message.id === 'm2') throw new Reject('closed');
        await wallet.credit(context, 1);
      },
    });
    const source = deliverySource(given);
    await consumer.run({ source });
    expect(source.outcomes).toEqual(given.map(({ id }) => (id === 'm2' ? 'dead-lettered' : 'processed')));
  });
});
