import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createInbox, type LeaseStore } from '../../src/index.ts';
import { memoryStore } from '../../src/memory.ts';
import { localStore } from '../../src/stores/local/index.ts';
import { temporaryPath } from '../stores/local-support.ts';
import { freshPrefix, openStore, singleClients } from '../stores/redis-clients.ts';
import { redisUrl } from '../support/redis.ts';

/** Two processes' view of one store: the same object where the store is of one process. */
interface Pair {
  readonly stores: readonly [LeaseStore, LeaseStore];
  close(): Promise<void>;
}

const targets: readonly { readonly name: string; open(): Promise<Pair> }[] = [
  {
    name: 'memory',
    async open() {
      const store = memoryStore();
      return { stores: [store, store], close: () => store.close() };
    },
  },
  {
    name: 'local',
    async open() {
      const { path, remove } = temporaryPath();
      const stores = [localStore(path), localStore(path)] as const;
      return {
        stores,
        async close() {
          await Promise.all(stores.map(store => store.close()));
          remove();
        },
      };
    },
  },
  ...singleClients.map(kind => ({
    name: kind.name,
    async open() {
      const prefix = freshPrefix();
      const opened = [
        await openStore(kind, redisUrl(), { prefix }),
        await openStore(kind, redisUrl(), { prefix }),
      ] as const;
      return {
        stores: [opened[0].store, opened[1].store] as const,
        close: async () => void (await Promise.all(opened.map(one => one.close()))),
      };
    },
  })),
];

const m1 = { id: 'm1', body: {} };

describe.each(targets)('a lease store: $name', ({ open }) => {
  let pair: Pair;
  let balance: number;
  beforeEach(async () => {
    pair = await open();
    balance = 0;
  });
  afterEach(() => pair.close());

  const inboxes = (options: Partial<Parameters<typeof createInbox>[0]> = {}) =>
    pair.stores.map(store => createInbox({ name: 'pay', store, busyWaitMs: 10_000, ...options }));
  const credit = async () => {
    balance += 500;
  };

  test('C02 A: of two copies at the same instant one is handled, and the other one is its duplicate', async () => {
    const outcomes = await Promise.all(inboxes().map(inbox => inbox.process(m1, credit)));
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['duplicate', 'processed']);
    expect(balance).toBe(500);
  });

  test('C02 B: the copy that waits takes over when the first one fails before its effect', async () => {
    const [one, two] = inboxes();
    const [started, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const first = one!.process(m1, async () => {
      started.resolve();
      await goOn.promise;
      throw new Error('before the effect');
    });
    await started.promise;
    const second = two!.process(m1, credit);
    goOn.resolve();
    await expect(first).rejects.toThrow('before the effect');
    expect(await second).toMatchObject({ status: 'processed' });
    expect(balance).toBe(500);
  });

  test('C23: after its time limit the message stays with the handler that still runs, and its one effect is the only one', async () => {
    const [one, two] = inboxes({ timeoutMs: 100 });
    const ended = Promise.withResolvers<void>();
    let reason: unknown;
    const late = one!.process(m1, async (_, { signal }) => {
      // It ignores the signal.
      await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()));
      reason = signal.reason;
      await ended.promise;
      await credit();
    });
    await expect(late).rejects.toMatchObject({ code: 'NT_HANDLER_TIMEOUT' });
    expect(reason).toMatchObject({ code: 'NT_HANDLER_TIMEOUT' });
    const again = two!.process(m1, credit);
    ended.resolve();
    expect(await again).toMatchObject({ status: 'duplicate' });
    expect(balance).toBe(500);
  });

  test('C26: a hundred deliveries of one id are one effect, 99 duplicates and no failure', async () => {
    const both = inboxes();
    const outcomes = await Promise.all(Array.from({ length: 100 }, (_, i) => both[i % 2]!.process(m1, credit)));
    const count = (status: string) => outcomes.filter(outcome => outcome.status === status).length;
    expect([count('processed'), count('duplicate')]).toEqual([1, 99]);
    expect(balance).toBe(500);
  });
});
