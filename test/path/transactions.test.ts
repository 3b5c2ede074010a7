import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { testConsumer } from '../../src/testing/index.ts';
import { backends, credit, onPostgres, type WalletStore } from '../support/wallet.ts';

const once = { attempts: 1, minMs: 1, maxMs: 2 };

describe.each(backends)('$name', ({ create }) => {
  let w: WalletStore;
  beforeEach(async () => {
    w = await create();
  });
  afterEach(() => w.drop());

  test('C13: an error that COMMIT raises is a failure; the ack comes after a confirmed commit only', async () => {
    await w.sql`CREATE TABLE parent (id text PRIMARY KEY)`;
    await w.sql`CREATE TABLE child (id text PRIMARY KEY REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)`;
    const inbox = createInbox({ name: 'pay', store: w.store });
    const work = async (_: unknown, context: never) => {
      await (context as { sql: typeof w.sql }).sql`INSERT INTO child VALUES ('p')`;
      await credit(context, 500);
    };
    await expect(inbox.process({ id: 'm1', body: {} }, work as never)).rejects.toThrow(/foreign key/i);
    expect(await w.inboxRows()).toBe(0);
    await w.sql`INSERT INTO parent VALUES ('p')`;
    expect(await inbox.process({ id: 'm1', body: {} }, work as never)).toMatchObject({ status: 'processed' });
    expect(await w.balance()).toBe(500);
  });

  test('C18: a statement that the handler did not await is waited for before the commit', async () => {
    const inbox = createInbox({ name: 'pay', store: w.store });
    await inbox.process({ id: 'm1', body: {} }, (_, context) => {
      void credit(context as never, 500);
    });
    expect(await w.balance()).toBe(500);
  });

  test('C18: when one of two parallel writes fails the other is finished, nothing is kept, and the connection goes on', async () => {
    const inbox = createInbox({ name: 'pay', store: w.store });
    const both = (context: never) =>
      Promise.all([(context as { sql: typeof w.sql }).sql`INSERT INTO no_such_table VALUES (1)`, credit(context, 500)]);
    await expect(inbox.process({ id: 'm1', body: {} }, (_, context) => both(context as never))).rejects.toThrow(
      /no_such_table/,
    );
    expect(await w.balance()).toBe(0);
    await inbox.process({ id: 'm1', body: {} }, (_, context) => credit(context as never, 500));
    expect(await w.balance()).toBe(500);
  });

  test('the handle dies with its transaction', async () => {
    let kept: { sql: typeof w.sql } | undefined;
    const inbox = createInbox({ name: 'pay', store: w.store });
    await inbox.process({ id: 'm1', body: {} }, (_, context) => {
      kept = context as never;
      return credit(context as never, 1);
    });
    await expect(credit(kept as never, 500)).rejects.toMatchObject({ code: 'NT_TX_CLOSED' });
    expect(await w.balance()).toBe(1);
  });

  test.each(['COMMIT', 'ROLLBACK', 'BEGIN', 'select 1; commit', '/* x */ END', "SELECT ';' ; /* a /* b */ */ ABORT"])(
    'a handler may not send %s',
    async text => {
      const inbox = createInbox({ name: 'pay', store: w.store });
      const send = (context: { sql: typeof w.sql }) => context.sql(Object.assign([text], { raw: [text] }) as never);
      await expect(inbox.process({ id: 'm1', body: {} }, (_, context) => send(context as never))).rejects.toMatchObject(
        { code: 'NT_TX_FORBIDDEN' },
      );
      expect(await w.inboxRows()).toBe(0);
    },
  );

  test('C11: context.savepoint lets a handler go on after a failed statement', async () => {
    await w.sql`CREATE TABLE customer (email text PRIMARY KEY)`;
    await w.sql`INSERT INTO customer VALUES ('x@example.org')`;
    const inbox = createInbox({ name: 'pay', store: w.store });
    const outcome = await inbox.process({ id: 'm1', body: {} }, async (_, context) => {
      const c = context as unknown as { sql: typeof w.sql; savepoint<R>(work: () => Promise<R>): Promise<R> };
      await c.savepoint(() => c.sql`INSERT INTO customer VALUES ('x@example.org')`).catch(() => 'known already');
      await credit(c, 500);
    });
    expect(outcome.status).toBe('processed');
    expect(await w.balance()).toBe(500);
  });

  test('C16: a batch whose handlers all use savepoints never holds more than 64 in a transaction', async () => {
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      handle: (_, context) => context.savepoint(() => credit(context, 1)),
    });
    const messages = Array.from({ length: 150 }, (_, i) => ({ id: `m${i}`, body: {} }));
    expect(await consumer.run({ source: memorySource(messages, { partitions: 1 }) })).toMatchObject({
      processed: 150,
      failed: 0,
    });
    expect(await w.balance()).toBe(150);
  });

  test('a handler cannot roll back to a savepoint that an earlier message of its batch left open', async () => {
    const refused: unknown[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      handle: async (message, context) => {
        if (message.id === 'm0') {
          await context.sql`SAVEPOINT s`;
          await credit(context, 500);
        } else {
          await context.sql`ROLLBACK TO SAVEPOINT s`.catch((error: unknown) => refused.push(error));
          await credit(context, 1);
        }
      },
    });
    const messages = [0, 1].map(i => ({ id: `m${i}`, body: {} }));
    expect(await consumer.run({ source: memorySource(messages, { partitions: 1 }) })).toMatchObject({ processed: 2 });
    expect(refused).toEqual([expect.objectContaining({ code: 'NT_TX_FORBIDDEN' })]);
    expect(await w.balance()).toBe(501);
  });

  test('C20: a handler that never uses its handle is told so; the library’s own state stays right', async () => {
    const warnings: string[] = [];
    const listen = (warning: Error & { code?: string }) =>
      warning.code === 'NT_HANDLE_UNUSED' && warnings.push(warning.message);
    process.on('warning', listen);
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      retries: { attempts: 2, minMs: 1, maxMs: 1 },
      handle: message => {
        if (message.id === 'bad') throw new Error('after a write elsewhere');
      },
    });
    await using t = await testConsumer(consumer);
    expect(await t.deliver({ id: 'ok', body: {} })).toBe('processed');
    expect(await t.deliver({ id: 'bad', body: {} })).toBe('dead-lettered');
    await new Promise(resolve => setImmediate(resolve));
    process.off('warning', listen);
    expect(warnings).toEqual([expect.stringContaining('neither context.tx nor context.sql')]);
    expect(await w.inboxRows()).toBe(1);
  });

  test.each([
    [
      'a sync throw',
      () => {
        throw new Error('x');
      },
    ],
    ['a rejection', () => Promise.reject(new Error('x'))],
    [
      'a thrown string',
      () => {
        throw 'x';
      },
    ],
    [
      'a thrown undefined',
      () => {
        throw undefined;
      },
    ],
  ])('C22: %s on the first try is not swallowed: not acked, tried again, handled', async (_, fail) => {
    let tries = 0;
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      retries: { attempts: 3, minMs: 1, maxMs: 1 },
      handle: async (message, context) => {
        await credit(context, 1);
        if (message.id === 'm2' && tries++ === 0) await fail();
      },
    });
    const messages = Array.from({ length: 5 }, (_, i) => ({ id: `m${i}`, body: {} }));
    expect(await consumer.run({ source: memorySource(messages) })).toEqual({
      processed: 5,
      duplicates: 0,
      conflicts: 0,
      deadLetters: 0,
      failed: 1,
    });
    expect(await w.balance()).toBe(5);
  });

  test('C23: the time limit cuts the handler off, its late write is refused, the redelivery credits once', async () => {
    const late = Promise.withResolvers<unknown>();
    let runs = 0;
    const zombie = Promise.withResolvers<void>();
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      timeoutMs: 100,
      retries: { attempts: 2, minMs: 1, maxMs: 1 },
      handle: async (_, context) => {
        if (++runs > 1) return credit(context, 500);
        await zombie.promise;
        credit(context, 500).then(late.resolve, late.resolve);
      },
    });
    await using t = await testConsumer(consumer);
    expect(await t.deliver({ id: 'm1', body: {} })).toBe('processed');
    expect(await w.balance()).toBe(500);
    zombie.resolve();
    expect(await late.promise).toMatchObject({ code: 'NT_TX_CLOSED' });
    expect(await w.balance()).toBe(500);
    expect(consumer.summary.failed).toBe(1);
  });
});

describe.each([{ pipeline: true }, { pipeline: false }])('PostgreSQL, pipeline $pipeline', options => {
  let w: WalletStore;
  beforeEach(async () => {
    w = await onPostgres(options);
  });
  afterEach(() => w.drop());

  test('C11: a handler that swallows a failed statement fails with that statement named, and nothing is kept', async () => {
    await w.sql`CREATE TABLE customer (email text PRIMARY KEY)`;
    await w.sql`INSERT INTO customer VALUES ('x@example.org')`;
    const inbox = createInbox({ name: 'pay', store: w.store });
    const outcome = inbox.process({ id: 'm1', body: {} }, async (_, context) => {
      const c = context as unknown as { sql: typeof w.sql };
      await c.sql`INSERT INTO customer VALUES ('x@example.org')`.catch(() => undefined);
    });
    await expect(outcome).rejects.toMatchObject({
      code: 'NT_TX_ABORTED',
      message: expect.stringMatching(/23505 in "INSERT INTO customer VALUES \('…'\)"/),
    });
    expect(await w.inboxRows()).toBe(0);
  });

  test('C04: a conflict dressed as 40001 runs exactly five times, with growing delays, and then fails as one try', async () => {
    const times: number[] = [];
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      retries: once,
      handle: async (message, context) => {
        if (message.id !== 'm1') return credit(context, 1);
        times.push(performance.now());
        await context.sql`DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$`;
      },
    });
    const messages = Array.from({ length: 4 }, (_, i) => ({ id: `m${i}`, body: {} }));
    const summary = await consumer.run({ source: memorySource(messages, { partitions: 1, retryLater: false }) });
    expect(times.length).toBe(5);
    expect(times[4]! - times[0]!).toBeLessThan(10_000);
    expect(summary).toEqual({ processed: 3, duplicates: 0, conflicts: 0, deadLetters: 1, failed: 1 });
    expect((await w.deadLetters())[0]!.reason).toMatch(/lost 5 races.*40001/);
  });

  test('a deadlock that the handler hides behind an error of its own is still a lost race', async () => {
    let runs = 0;
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      retries: once,
      handle: async (_, context) => {
        if (++runs === 1) {
          await context.sql`DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END $$`.catch(() => {
            throw new Error('could not save');
          });
        }
        await credit(context, 500);
      },
    });
    expect(await consumer.run({ source: memorySource([{ id: 'm1', body: {} }]) })).toMatchObject({
      processed: 1,
      failed: 0,
    });
    expect(await w.balance()).toBe(500);
  });
});
