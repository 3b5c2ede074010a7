import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox, Reject } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { backends, credit, onPostgres, type WalletStore } from '../support/wallet.ts';

const retries = { attempts: 2, minMs: 1, maxMs: 2 };
const numbered = (n: number) =>
  Array.from({ length: n }, (_, i) => ({ id: `m${i}`, key: `k${i}`, body: { amount: 1 } }));

describe.each(backends)('$name', ({ create }) => {
  let w: WalletStore;
  beforeEach(async () => {
    w = await create();
  });
  afterEach(() => w.drop());

  test('C07: a batch with an old duplicate and the same id twice: each new id once, all acked', async () => {
    const inbox = createInbox({ name: 'pay', store: w.store });
    await inbox.process({ id: 'c', body: {} }, (_, context) => credit(context as never, 1));
    const seen: string[] = [];
    const outcomes = await inbox.processBatch(
      ['a', 'b', 'b', 'c', 'd', 'e'].map(id => ({ id, body: {} })),
      async (messages, context) => {
        seen.push(...messages.map(m => m.id));
        await credit(context as never, messages.length);
      },
    );
    expect(seen).toEqual(['a', 'b', 'd', 'e']);
    expect(outcomes.map(o => o.status)).toEqual([
      'processed',
      'processed',
      'duplicate',
      'duplicate',
      'processed',
      'processed',
    ]);
    expect(await w.balance()).toBe(5);
  });

  test.each(['handle', 'handleBatch'] as const)('one bad element never fails its neighbours (%s)', async shape => {
    const bad = (m: { id: string }) => m.id === 'm11' || m.id === 'm12' || m.id === 'm29';
    const fail = (m: { id: string }) => {
      if (bad(m)) throw new Error(`cannot do ${m.id}`);
    };
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      retries,
      ...(shape === 'handle'
        ? {
            handle: async (m: { id: string }, context: never) => {
              await credit(context, 1);
              fail(m);
            },
          }
        : {
            handleBatch: async (messages: readonly { id: string }[], context: never) => {
              await credit(context, messages.length);
              messages.forEach(fail);
            },
          }),
    } as never);
    const summary = await consumer.run({ source: memorySource(numbered(30), { partitions: 1, retryLater: false }) });
    expect(summary).toMatchObject({ processed: 27, deadLetters: 3 });
    expect(await w.balance()).toBe(27);
    expect(await w.inboxRows()).toBe(27);
    expect((await w.deadLetters()).map(d => [d.message_id, d.kind, d.reason])).toEqual(
      ['m11', 'm12', 'm29'].map(id => [id, 'attempts', `cannot do ${id}`]),
    );
  });

  test('Reject sets one message aside at once; what it wrote is undone', async () => {
    let runs = 0;
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      retries,
      handle: async (m, context) => {
        await credit(context, 1);
        if (m.id !== 'm3') return;
        runs++;
        throw new Reject('account closed');
      },
    });
    const summary = await consumer.run({ source: memorySource(numbered(6)) });
    expect(summary).toEqual({ processed: 5, duplicates: 0, conflicts: 0, deadLetters: 1, failed: 0 });
    expect(await w.balance()).toBe(5);
    expect(await w.deadLetters()).toEqual([{ message_id: 'm3', kind: 'rejected', reason: 'account closed' }]);
    // Once inside the batch, once alone: never again after that.
    expect(runs).toBe(2);
  });

  test('context.reject in a set-based handler: the others commit, the follower of the same id is claimed anew', async () => {
    const calls: string[][] = [];
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      handleBatch: async (messages, context) => {
        calls.push(messages.map(m => m.id));
        const [bad, good] = [messages.filter(m => m.id === 'm1'), messages.filter(m => m.id !== 'm1')];
        for (const message of bad) context.reject(message, 'no such account');
        await credit(context, good.length);
      },
    });
    const messages = numbered(4);
    const summary = await consumer.run({
      source: memorySource([...messages, messages[1]!, messages[2]!], { partitions: 1 }),
    });
    expect(calls).toEqual([['m0', 'm1', 'm2', 'm3'], ['m1']]);
    expect(summary).toEqual({ processed: 3, duplicates: 1, conflicts: 0, deadLetters: 2, failed: 0 });
    expect(await w.balance()).toBe(3);
    // A second copy of a dead letter that is still open is the same dead letter.
    expect(await w.deadLetters()).toEqual([{ message_id: 'm1', kind: 'rejected', reason: 'no such account' }]);
  });

  test('C113: counts add up to the deliveries, each once', async () => {
    const consumer = createConsumer({ name: 'pay', store: w.store, handle: (_, context) => credit(context, 1) });
    const messages = numbered(6);
    const summary = await consumer.run({
      source: memorySource([...messages, ...messages.slice(0, 3), { ...messages[5]!, body: { amount: 9 } }], {
        partitions: 1,
      }),
    });
    expect(summary).toEqual({ processed: 6, duplicates: 3, conflicts: 1, deadLetters: 0, failed: 0 });
  });

  test('an error that only the commit shows is found by halving', async () => {
    await w.sql`CREATE TABLE parent (id text PRIMARY KEY)`;
    await w.sql`CREATE TABLE child (id text PRIMARY KEY REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`;
    for (const m of numbered(16)) if (m.id !== 'm9') await w.sql`INSERT INTO parent VALUES (${m.id})`;
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      retries: { attempts: 1 },
      handle: async (m, context) => {
        await context.sql`INSERT INTO child VALUES (${m.id})`;
      },
    });
    const summary = await consumer.run({ source: memorySource(numbered(16), { partitions: 1, retryLater: false }) });
    expect(summary).toMatchObject({ processed: 15, deadLetters: 1 });
    expect((await w.sql`SELECT id FROM child`).length).toBe(15);
  });

  test("deadLetter: 'key' sets later messages of the key aside behind the first", async () => {
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      deadLetter: 'key',
      handle: (m, context) => {
        if (m.id === 'm0') throw new Reject('bad');
        return credit(context, 1);
      },
    });
    const source = memorySource(
      numbered(6).map(m => ({ ...m, key: Number(m.id.slice(1)) % 2 === 0 ? 'even' : 'odd' })),
      { partitions: 1 },
    );
    expect(await consumer.run({ source })).toMatchObject({ processed: 3, deadLetters: 3 });
    expect((await w.deadLetters()).map(d => [d.message_id, d.kind])).toEqual([
      ['m0', 'rejected'],
      ['m2', 'behind'],
      ['m4', 'behind'],
    ]);
  });
});

describe('PostgreSQL, overlapping handlers', () => {
  let w: WalletStore;
  beforeEach(async () => {
    w = await onPostgres();
  });
  afterEach(() => w.drop());

  test('distinct keys overlap, one key stays in order, a failure isolates its message', async () => {
    let running = 0;
    let most = 0;
    const order: string[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      overlap: 'by-key',
      retries: { attempts: 1 },
      handle: async (m, context) => {
        most = Math.max(most, ++running);
        if (m.key === 'k') order.push(m.id);
        await credit(context, 1);
        running--;
        if (m.id === 'm5') throw new Error('no');
      },
    });
    const messages = numbered(40).map((m, i) => ({ ...m, key: i % 4 === 0 ? 'k' : m.key }));
    expect(await consumer.run({ source: memorySource(messages, { partitions: 1, retryLater: false }) })).toMatchObject({
      processed: 39,
      deadLetters: 1,
    });
    expect(most).toBeGreaterThan(5);
    expect(await w.balance()).toBe(39);
    const rank = order.slice(-10).map(id => Number(id.slice(1)));
    expect(rank).toEqual([...rank].sort((a, b) => a - b));
  });

  test.each(['SAVEPOINT s', 'ROLLBACK TO s', 'SET LOCAL work_mem = 1000', 'DECLARE c CURSOR FOR SELECT 1'])(
    '%s is refused by name',
    async text => {
      const errors: unknown[] = [];
      const consumer = createConsumer({
        name: 'pay',
        store: w.store,
        overlap: 'by-key',
        handle: async (_, { tx }) => {
          await tx.query(text).catch((error: unknown) => errors.push(error));
        },
      });
      await consumer.run({ source: memorySource(numbered(1)) });
      expect(errors).toEqual([expect.objectContaining({ code: 'NT_TX_FORBIDDEN' })]);
    },
  );
});

test('a pool that does not pipeline is refused at the start, with the fix', async () => {
  const plain = await onPostgres({ pipeline: false });
  const consumer = createConsumer({ name: 'pay', store: plain.store, overlap: 'by-key', handle: () => undefined });
  await expect(consumer.run({ source: memorySource([]) })).rejects.toThrow('pipeline: true');
  await plain.drop();
});
