import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox } from '../../src/index.ts';
import { testConsumer } from '../../src/testing/index.ts';
import { backends, credit, onPostgres, type WalletStore } from '../support/wallet.ts';

describe.each(backends)('$name', ({ create }) => {
  let w: WalletStore;
  beforeEach(async () => {
    w = await create();
  });
  afterEach(() => w.drop());

  test('C02 A: two copies at the same instant credit once; both may be acked', async () => {
    const consumer = createConsumer({ name: 'pay', store: w.store, handle: (_, context) => credit(context, 500) });
    await using t = await testConsumer(consumer);
    expect([...(await t.deliverOverlapping({ id: 'm1', body: {} }))].sort()).toEqual(['duplicate', 'processed']);
    expect(await w.balance()).toBe(500);
    expect(consumer.summary).toMatchObject({ processed: 1, duplicates: 1, failed: 0 });
  });

  test('C02 B: the copy that waits takes over when the first one rolls back', async () => {
    const inboxes = [w.store, w.another()].map(store => createInbox({ name: 'pay', store }));
    const written = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const first = inboxes[0]!.process({ id: 'm1', body: {} }, async (_, context) => {
      await credit(context as never, 500);
      written.resolve();
      await goOn.promise;
      throw new Error('after the write');
    });
    await written.promise;
    const second = inboxes[1]!.process({ id: 'm1', body: {} }, (_, context) => credit(context as never, 500));
    goOn.resolve();
    await expect(first).rejects.toThrow('after the write');
    expect(await second).toMatchObject({ status: 'processed' });
    expect(await w.balance()).toBe(500);
  });

  test('C26: a hundred deliveries of one id are one effect, 99 duplicates and no failure', async () => {
    const inbox = createInbox({ name: 'pay', store: w.store });
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, () =>
        inbox.process({ id: 'm1', body: {} }, (_, context) => credit(context as never, 500)),
      ),
    );
    const count = (status: string) => outcomes.filter(outcome => outcome.status === status).length;
    expect([count('processed'), count('duplicate')]).toEqual([1, 99]);
    expect(await w.balance()).toBe(500);
  });

  test('C42, C43: consumers of one message are separate scopes; a name may run once on a store and must not be empty', async () => {
    const make = (name: string) =>
      createConsumer({ name, store: w.store, handle: (_, context) => credit(context, 500) });
    const [email, ledger] = [make('email'), make('ledger')];
    await using one = await testConsumer(email);
    await using two = await testConsumer(ledger);
    expect(await one.deliverTwice({ id: 'm1', body: {} })).toEqual(['processed', 'duplicate']);
    expect(await two.deliverTwice({ id: 'm1', body: {} })).toEqual(['processed', 'duplicate']);
    expect(await w.balance()).toBe(1000);
    await expect(
      make('email').run({ source: (await import('../../src/memory.ts')).memorySource([]) }),
    ).rejects.toMatchObject({ code: 'NT_CONFIG' });
    expect(() => make('  ')).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
  });
});

describe.each(['repeatable read', 'serializable'] as const)('PostgreSQL at %s', isolation => {
  let w: WalletStore;
  beforeEach(async () => {
    w = await onPostgres({ isolation });
  });
  afterEach(() => w.drop());

  test('C03: the loser of the race restarts in a new snapshot and is a duplicate, not a failure', async () => {
    const consumer = createConsumer({ name: 'pay', store: w.store, handle: (_, context) => credit(context, 500) });
    await using t = await testConsumer(consumer);
    expect([...(await t.deliverOverlapping({ id: 'm1', body: {} }, 3))].sort()).toEqual([
      'duplicate',
      'duplicate',
      'processed',
    ]);
    expect(await t.deliver({ id: 'm1', body: {} })).toBe('duplicate');
    expect(await w.balance()).toBe(500);
    expect(consumer.summary).toEqual({ processed: 1, duplicates: 3, conflicts: 0, deadLetters: 0, failed: 0 });
  });

  test('C05: ten writers of different ids on one account all get through', async () => {
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      concurrency: 5,
      transientRetries: 50,
      handle: (_, context) => credit(context, 50),
    });
    await using t = await testConsumer(consumer);
    const results = await Promise.all(Array.from({ length: 10 }, (_, i) => t.deliver({ id: `m${i}`, body: {} })));
    expect(new Set(results)).toEqual(new Set(['processed']));
    expect(await w.balance()).toBe(500);
    expect(consumer.summary.deadLetters).toBe(0);
  });
});

describe('PostgreSQL, contested claims', () => {
  let w: WalletStore;
  beforeEach(async () => {
    w = await onPostgres({ lockTimeoutMs: 20 });
  });
  afterEach(() => w.drop());

  test('a live owner makes one message busy; its neighbours in the batch go on', async () => {
    const [owner, other] = [
      createInbox({ name: 'pay', store: w.store }),
      createInbox({ name: 'pay', store: w.another(), busyWaitMs: 50 }),
    ];
    const started = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const held = owner.process({ id: 'm3', body: {} }, async (_, context) => {
      started.resolve();
      await goOn.promise;
      await credit(context as never, 1);
    });
    await started.promise;
    const batch = Array.from({ length: 7 }, (_, i) => ({ id: `m${i}`, body: {} }));
    const error = await other
      .processBatch(batch, (messages, context) => credit(context as never, messages.length))
      .then(
        () => undefined,
        e => e,
      );
    expect(error).toMatchObject({ code: 'NT_BATCH' });
    expect(error.outcomes.map((o: { status: string }) => o.status)).toEqual(
      batch.map(({ id }) => (id === 'm3' ? 'rejected' : 'processed')),
    );
    expect(error.outcomes[3].error).toMatchObject({ code: 'NT_BUSY', retryable: true });
    goOn.resolve();
    await held;
    expect(await w.balance()).toBe(7);
    // Asked again, the truth is out.
    expect(await other.process({ id: 'm3', body: {} }, () => undefined)).toMatchObject({ status: 'duplicate' });
  });

  test('C06: batches that claim the same ids in opposite orders finish, each id once', async () => {
    const ids = Array.from({ length: 100 }, (_, i) => `m${i}`);
    const stores = [w.store, w.another(), w.another()];
    await Promise.all(
      stores.map((store, n) =>
        createInbox({ name: 'pay', store }).processBatch(
          (n % 2 === 0 ? ids : [...ids].reverse()).slice(n * 10).map(id => ({ id, body: {} })),
          (messages, context) => credit(context as never, messages.length),
        ),
      ),
    );
    expect(await w.balance()).toBe(100);
    expect(await w.inboxRows()).toBe(100);
    expect(await w.deadLetters()).toEqual([]);
  });
});
