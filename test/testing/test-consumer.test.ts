import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { bodyPath, createConsumer, Reject, type TransactionalStore } from '../../src/index.ts';
import { memorySource, memoryStore } from '../../src/memory.ts';
import { type TestConsumer, testConsumer } from '../../src/testing/index.ts';
import { type AnyStore, allStores, freshName, type Wallet } from '../path/stores.ts';
import { endsWithin } from '../support/until.ts';

describe.each(allStores.filter(({ name }) => name !== 'memory'))(
  'testConsumer on $name',
  ({ name: storeName, create }) => {
    let s: AnyStore;
    let w: Wallet;
    let t: TestConsumer;
    let name: string;
    beforeAll(async () => {
      s = await create();
    });
    afterAll(() => s.drop());
    beforeEach(async () => {
      w = await s.wallet();
      name = freshName();
    });
    afterEach(() => t.stop());

    const credit = (context: unknown, amount: number) => w.credit(context, amount);
    const start = async (options: object = {}) => {
      const handle = (_: unknown, context: unknown) => credit(context, 500);
      const consumer = createConsumer({ name, store: s.store, handle, ...options } as never);
      t = await testConsumer(consumer);
      return consumer;
    };

    test('deliver, deliverTwice: runs the real handler on the real store and says what became of it', async () => {
      const consumer = await start({
        onUnknownType: 'ignore',
        handle: undefined,
        retries: { attempts: 1 },
        handlers: {
          paid: {
            handle: async (message: { id: string }, context: never) => {
              await credit(context, 500);
              if (message.id === 'bad') throw new Reject('closed');
            },
          },
        },
      });
      expect(await t.deliver({ id: 'm1', type: 'paid', body: { amount: 1 } })).toBe('processed');
      expect(await t.deliver({ id: 'm1', type: 'paid', body: { amount: 1 } })).toBe('duplicate');
      expect(await t.deliver({ id: 'm1', type: 'paid', body: { amount: 2 } })).toBe('conflict');
      expect(await t.deliverTwice({ id: 'm2', type: 'paid', body: {} })).toEqual(['processed', 'duplicate']);
      expect(await t.deliver({ id: 'bad', type: 'paid', body: {} })).toBe('dead-lettered');
      expect(await t.deliver({ type: 'paid', body: {} })).toBe('dead-lettered');
      expect(await t.deliver({ id: 'm3', type: 'other', body: {} })).toBe('ignored');
      expect(await w.balance()).toBe(1000);
      expect(consumer.summary).toMatchObject({ processed: 2, duplicates: 2, conflicts: 1, deadLetters: 2 });
    });

    test('every part of a message arrives', async () => {
      const seen: unknown[] = [];
      await start({
        identity: bodyPath('id'),
        handle: (message: any, context: never) => {
          seen.push(
            message.id,
            message.type,
            message.key,
            message.time,
            message.headers.get('trace'),
            message.attempt,
            message.body,
          );
          return credit(context, 1);
        },
      });
      const time = new Date(1_700_000_000_000);
      const body = { id: 'from-the-body' };
      await t.deliver({ type: 'paid', key: 'k', time, headers: { trace: Buffer.from('t-1') }, attempt: 4, body });
      expect(seen).toEqual(['from-the-body', 'paid', 'k', time, 't-1', 4, body]);
    });

    test.skipIf(storeName === 'SQLite')(
      'deliverOverlapping: the copies are in claim while the first one is in its handler',
      async () => {
        const inHandler: string[] = [];
        await start({
          concurrency: 3,
          handle: async (_: unknown, context: never) => {
            inHandler.push(...(await waitingClaims(s.store as TransactionalStore<any>)));
            await credit(context, 500);
          },
        });
        expect([...(await t.deliverOverlapping({ id: 'm1', body: {} }, 3))].sort()).toEqual([
          'duplicate',
          'duplicate',
          'processed',
        ]);
        expect(await w.balance()).toBe(500);
        // Another session stood at the very row that the first one had inserted and not committed.
        expect(inHandler).toContainEqual(expect.stringMatching(/insert into .*inbox/i));
      },
    );

    test('deliverOverlapping with one lane at a time: the copies come one after the other', async () => {
      await start({ concurrency: 1 });
      expect(await t.deliverOverlapping({ id: 'm1', body: {} })).toEqual(['processed', 'duplicate']);
      expect(await w.balance()).toBe(500);
    });

    test('deliverOverlapping of what is no longer new, and of what has no id', async () => {
      await start();
      await t.deliver({ id: 'm1', body: {} });
      expect(await t.deliverOverlapping({ id: 'm1', body: {} })).toEqual(['duplicate', 'duplicate']);
      expect(await t.deliverOverlapping({ body: {} })).toEqual(['dead-lettered', 'dead-lettered']);
      // And no gate of it is left behind in which a later message, or a later hold, would be caught.
      const held = t.hold('handle', 'before', 'm2');
      const delivered = t.deliver({ id: 'm2', body: {} });
      expect((await endsWithin(5_000, 'the gate', held.reached)).ids).toEqual(['m2']);
      held.release();
      expect(await delivered).toBe('processed');
    });

    test.each([
      ['identify', 'after', 0],
      ['claim', 'before', 0],
      ['claim', 'after', 0],
      ['handle', 'before', 0],
      ['handle', 'after', 0],
      ['record', 'before', 0],
      ['record', 'after', 500],
      ['settle', 'before', 500],
    ] as const)(
      'hold at %s %s: the path stands still there, and goes on when released',
      async (step, edge, visible) => {
        const consumer = await start();
        const held = t.hold(step, edge, 'm1');
        const other = await t.deliver({ id: 'm0', body: {} });
        const delivered = t.deliver({ id: 'm1', body: {} });
        const at = await held.reached;
        expect(at).toMatchObject({ step, edge, consumer: name, ids: ['m1'] });
        expect(other).toBe('processed');
        // A reader in between would wait for SQLite's one connection, which stands inside the transaction.
        if (storeName !== 'SQLite' || visible > 0 || step === 'identify' || (step === 'claim' && edge === 'before')) {
          expect(await w.balance()).toBe(500 + visible);
        }
        expect(await Promise.race([delivered, Promise.resolve('standing')])).toBe('standing');
        held.release();
        held.release();
        expect(await delivered).toBe('processed');
        expect(await w.balance()).toBe(1000);
        expect(consumer.summary.processed).toBe(2);
      },
    );

    test('a gate holds the first that comes, and only that one; two gates hold two', async () => {
      await start({ concurrency: 3 });
      const [one, two] = [t.hold('claim', 'before'), t.hold('claim', 'before')];
      const first = t.deliver({ id: 'm1', body: {} });
      await one.reached;
      const second = t.deliver({ id: 'm2', body: {} });
      await two.reached;
      expect(await t.deliver({ id: 'm3', body: {} })).toBe('processed');
      one.release();
      two.release();
      expect([await first, await second]).toEqual(['processed', 'processed']);
    });

    test('a gate that is released before anybody came holds nobody', async () => {
      await start();
      t.hold('handle', 'before').release();
      const held = t.hold('handle', 'before');
      const delivered = t.deliver({ id: 'm1', body: {} });
      expect((await endsWithin(5_000, 'the second gate', held.reached)).ids).toEqual(['m1']);
      held.release();
      expect(await delivered).toBe('processed');
    });

    test('stop lets go what is held, whether or not it was reached; the held message is not lost', async () => {
      await start();
      t.hold('settle', 'after');
      const held = t.hold('record', 'before');
      const delivered = t.deliver({ id: 'm1', body: {} });
      await held.reached;
      await endsWithin(10_000, 'stop', t.stop());
      expect(await delivered).toBe('processed');
      expect(await w.balance()).toBe(500);
      await t.stop();
    });

    test('a delivery after the stop is refused by name, and one that the stop came before is not acked', async () => {
      await start();
      const held = t.hold('identify', 'after');
      const delivered = t.deliver({ id: 'm1', body: {} });
      await held.reached;
      await t.stop();
      expect(await delivered).toBe('not acked');
      await expect(t.deliver({ id: 'm2', body: {} })).rejects.toMatchObject({ code: 'NT_STOPPED' });
      await expect(t.deliverOverlapping({ id: 'm2', body: {} })).rejects.toMatchObject({ code: 'NT_STOPPED' });
      expect(await w.balance()).toBe(0);
    });

    test('a consumer that cannot start rejects in deliver with the reason', async () => {
      const consumer = createConsumer({
        name,
        store: s.store,
        setup: () => Promise.reject(new Error('no such table')),
        handle: () => undefined,
      });
      t = await testConsumer(consumer);
      await expect(t.deliver({ id: 'm1', body: {} })).rejects.toThrow('no such table');
      await expect(t.deliverTwice({ id: 'm1', body: {} })).rejects.toThrow('no such table');
      await expect(t.deliverOverlapping({ id: 'm1', body: {} })).rejects.toThrow('no such table');
      const running = createConsumer({ name, store: s.store, handle: () => undefined });
      await using first = await testConsumer(running);
      await using second = await testConsumer(running);
      expect(await first.deliver({ id: 'm1', body: {} })).toBe('processed');
      await expect(second.deliver({ id: 'm1', body: {} })).rejects.toMatchObject({ code: 'NT_CONFIG' });
    });

    test('a consumer that breaks while it runs rejects the deliveries that are waiting', async () => {
      await start({ handle: undefined, handlers: { paid: { handle: () => undefined } }, onUnknownType: 'refuse' });
      await expect(t.deliver({ id: 'm1', type: 'other', body: {} })).rejects.toMatchObject({ code: 'NT_CONFIG' });
    });
  },
);

test('another store than the consumer’s own can be given', async () => {
  const [own, other] = [memoryStore(), memoryStore()];
  const consumer = createConsumer({ name: 'pay', store: own, source: memorySource([]), handle: () => undefined });
  await using t = await testConsumer(consumer, { store: other });
  expect(await t.deliverTwice({ id: 'm1', body: {} })).toEqual(['processed', 'duplicate']);
  expect([(await own.stats()).length, (await other.stats())[0]!.processed]).toEqual([0, 1]);
});

/** Claims that wait for another session in this database, as the server sees it. */
async function waitingClaims(store: TransactionalStore<any>): Promise<string[]> {
  for (let i = 0; i < 200; i++) {
    const rows = await store.transaction(
      (_, sql) =>
        sql<{
          query: string;
        }>`SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    if (rows.length > 0) return rows.map(row => row.query);
  }
  return [];
}
