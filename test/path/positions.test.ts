import { AsyncResource } from 'node:async_hooks';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  type Consumer,
  createConsumer,
  type PointAt,
  position,
  Reject,
  type Source,
  type Summary,
} from '../../src/index.ts';
import { memoryBroker, memoryStore } from '../../src/memory.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { type TestLog, testLog } from '../support/log-source.ts';
import { seeded } from '../support/random.ts';
import { endsWithin, until } from '../support/until.ts';
import { backends, credit, type WalletStore } from '../support/wallet.ts';
import { warningsOf } from './warnings.ts';

// What another process does comes from no handler of this one.
const outside = new AsyncResource('another process');
const WITHIN_MS = 20_000;

describe.each(backends)('$name', ({ create }) => {
  let w: WalletStore;
  let log: TestLog;
  const running: { consumer: Consumer; done: Promise<Summary> }[] = [];

  beforeEach(async () => {
    w = await create();
    log = testLog();
  });
  afterEach(async () => {
    for (const { consumer, done } of running.splice(0)) {
      await consumer.stop({ withinMs: 0 });
      await done.catch(() => undefined);
    }
    await w.drop();
  });

  type Options = Parameters<typeof createConsumer<WalletStore['store']>>[0];

  function start(options: Partial<Options> = {}, run: Parameters<Consumer['run']>[0] = {}) {
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      source: log.source(),
      dedupe: 'position',
      retries: { minMs: 1, maxMs: 5 },
      handle: (message, context) => credit(context, (message.body as { amount: number }).amount),
      ...options,
    } as Options);
    const done = consumer.run(run);
    done.catch(() => undefined);
    running.push({ consumer, done });
    return {
      consumer,
      done,
      stop: async () => {
        await consumer.stop({ withinMs: 5_000 });
        return done;
      },
    };
  }

  const five = (n: number, id?: (i: number) => string) =>
    Array.from({ length: n }, (_, i) => ({ body: { amount: 5 }, ...(id === undefined ? {} : { id: id(i) }) }));
  const row = async () => (await w.store.lanes.list('pay'))[0];
  const at = (position: number) =>
    until(`position ${position}`, async () => (await row())?.position === BigInt(position), WITHIN_MS);

  test('each record once, without a row for each and without ids', async () => {
    log.append(...five(40));
    const { stop } = start();
    await at(40);
    expect(await stop()).toMatchObject({ processed: 40, duplicates: 0 });
    expect(await w.balance()).toBe(200);
    expect(await w.inboxRows()).toBe(0);
    expect(log.committed).toEqual({ offset: 40n, position: 40n });
  });

  test('a copy with a position of its own is done twice by position, and once by both', async () => {
    log.append(...five(3, i => `m${i}`), ...five(3, i => `m${i}`));
    await (await startUntil({ dedupe: 'position' }, 6)).stop();
    expect(await w.balance()).toBe(30);
    log.expire();
    const both = await startUntil({ dedupe: 'both', name: 'both' }, 6, 'both');
    expect(await both.stop()).toMatchObject({ processed: 3, duplicates: 3 });
    expect(await w.balance()).toBe(45);
  });

  async function startUntil(options: Partial<Options>, position: number, name = 'pay') {
    const started = start(options);
    const rows = () => w.store.lanes.list(name);
    await until('all handled', async () => (await rows())[0]?.position === BigInt(position), WITHIN_MS);
    return started;
  }

  test('the group has lost its offset: nothing is done again', async () => {
    log.append(...five(10));
    await (await startUntil({}, 10)).stop();
    log.expire();
    log.append(...five(1));
    await (await startUntil({}, 11)).stop();
    expect(await w.balance()).toBe(55);
  });

  test.each(['position', 'both'] as const)(
    'refused, rejected and failing messages keep their order and their place: %s',
    async dedupe => {
      const done: string[] = [];
      log.append(
        { id: 'a', body: { amount: 5 } },
        { id: '', body: { amount: 5 } },
        { id: 'b', body: { amount: 5 } },
        { id: 'c', body: 'reject' },
        { id: 'd', body: { amount: 5 } },
        { id: 'e', body: 'fail' },
        { id: 'f', body: { amount: 5 } },
      );
      const { stop } = start({
        dedupe,
        identity: Object.assign((raw: any) => raw.headers.get('message-id'), { signature: 'h' }) as never,
        retries: { attempts: 2, minMs: 1, maxMs: 2 },
        handle: async (message, context) => {
          if (message.body === 'reject') throw new Reject('no');
          if (message.body === 'fail') throw new Error('no');
          await credit(context as never, 5);
          done.push(message.id);
        },
      });
      await at(7);
      expect(await stop()).toMatchObject({ processed: 4, deadLetters: 3 });
      expect(await w.balance()).toBe(20);
      expect((await w.deadLetters()).map(letter => letter.kind).toSorted()).toEqual(['attempts', 'bad-id', 'rejected']);
    },
  );

  test.each(['position', 'both'] as const)(
    'C98: a redrive goes by id, wherever the lane stands by now, and leaves the position alone: %s',
    async dedupe => {
      let open = false;
      const done: string[] = [];
      const options: Partial<Options> = {
        dedupe,
        retries: { attempts: 1 },
        handle: async (message, context) => {
          if (message.body === 'fail' && !open) throw new Error('no');
          await credit(context as never, 5);
          done.push(message.id);
        },
        // By position an id is made of what only the source knows.
        ...(dedupe === 'position' ? { identity: position() } : {}),
      };
      log.append({ id: 'a', body: 'fail' }, { id: 'b', body: 5 });
      const { consumer, stop } = start(options);
      await at(2);
      open = true;
      const [letter] = await w.store.letters!.list('pay', {}, { limit: 2 });
      expect(await consumer.redrive()).toMatchObject({ processed: 1 });
      expect(await consumer.redrive()).toMatchObject({ processed: 0 });
      expect(done.at(-1)).toBe(letter!.messageId);
      log.append({ id: 'c', body: 5 });
      await at(3);
      expect(await stop()).toMatchObject({ processed: 2, deadLetters: 1 });
      expect(await w.balance()).toBe(15);
      expect(await w.deadLetters()).toHaveLength(0);
    },
  );

  test('a lane that is taken over under a running handler commits nothing, and begins anew where the other stopped', async () => {
    log.append(...five(10));
    let takeOver = true;
    const [taken, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { stop } = start({
      maxBatch: 4,
      handle: async (message, context) => {
        await credit(context as never, 5);
        if (takeOver && message.position === 'log/0/5') {
          takeOver = false;
          taken.resolve();
          await go.promise;
        }
      },
    });
    await taken.promise;
    const raising = w.another().lanes.raise('pay', 'log/0');
    // SQLite has one writer: there the other has to wait until this one is done, and this one learns of it afterwards.
    if (!w.store.name.startsWith('sqlite')) await raising;
    go.resolve();
    await raising;
    await at(10);
    await stop();
    expect(await w.balance()).toBe(50);
    expect(isRising(log.commits)).toBe(true);
  });

  test('C97: a database that lost its last commits has them delivered again', async () => {
    log.append(...five(10));
    await (await startUntil({}, 10)).stop();
    // The state of a moment ago, as a replica that was promoted has it.
    await w.sql`UPDATE wallet SET balance = 30 WHERE account = 'a'`;
    const before = (await row())!;
    await w.store.lanes.begin('pay', 'log/0', before.epoch, { position: 6n, log: before.log!, mark: undefined });
    const warnings = await warningsOf('NT_REPLAY');
    log.append(...five(2));
    await (await startUntil({}, 12)).stop();
    expect(await w.balance()).toBe(60);
    expect(await warnings.read()).toEqual([expect.stringContaining('4 offsets behind')]);
  });

  describe('what only a person can answer', () => {
    const asked = async (code: string) => {
      const warnings = await warningsOf(code);
      return () => until(`asked: ${code}`, async () => (await warnings.read()).length > 0, WITHIN_MS);
    };

    test('an offset that somebody has set: nothing moves until it is accepted or refused', async () => {
      log.append(...five(10));
      await (await startUntil({}, 10)).stop();
      log.reset(4n);
      const question = await asked('NT_OFFSET_RESET');
      const { stop } = start();
      await question();
      expect((await row())?.position).toBe(10n);
      expect(await w.balance()).toBe(50);
      await w.another().lanes.order('pay', 'log/0', 'group');
      await until('done again on purpose', async () => (await w.balance()) === 80, WITHIN_MS);
      await stop();
      expect(await row()).toMatchObject({ position: 10n, beginAt: undefined });

      log.reset(2n);
      const again = await asked('NT_OFFSET_RESET');
      const second = start();
      await again();
      await w.another().lanes.order('pay', 'log/0', 'position');
      log.append(...five(1));
      await at(11);
      await second.stop();
      expect(await w.balance()).toBe(85);
      expect(log.committed).toEqual({ offset: 11n, position: 11n });
    });

    test('the same offset set once more is asked about once more, also when the consumer has begun with it', async () => {
      log.append(...five(10));
      log.reset(4n);
      await (await startUntil({}, 10)).stop();
      expect(await w.balance()).toBe(30);
      log.reset(4n);
      const question = await asked('NT_OFFSET_RESET');
      const { stop } = start();
      await question();
      await w.another().lanes.order('pay', 'log/0', 'group');
      await until('done again on purpose', async () => (await w.balance()) === 60, WITHIN_MS);
      await stop();
    });

    test('a topic that was made again: its records are new, whatever their offsets say', async () => {
      log.append(...five(10));
      await (await startUntil({}, 10)).stop();
      log.replace();
      log.append(...five(20));
      const question = await asked('NT_LOG_CHANGED');
      const { stop } = start();
      await question();
      expect(await w.balance()).toBe(50);
      await w.another().lanes.order('pay', 'log/0', 'group');
      await at(20);
      await stop();
      expect(await w.balance()).toBe(150);
    });

    test('a log that lost its end, and with it what was handled', async () => {
      log.append(...five(10));
      await (await startUntil({}, 10)).stop();
      log.truncate(7);
      const question = await asked('NT_LOG_CHANGED');
      const { stop } = start();
      await question();
      expect((await row())?.position).toBe(10n);
      await w.another().lanes.order('pay', 'log/0', 'latest');
      await at(7);
      log.append(...five(1));
      await at(8);
      await stop();
      expect(await w.balance()).toBe(55);
    });

    test('records that are gone before they were read; a mark that nobody could read costs no question', async () => {
      log.append(...five(10));
      await (await startUntil({}, 10)).stop();
      log.append(...five(10));
      log.retained(15n);
      const question = await asked('NT_LOG_CHANGED');
      const { stop } = start();
      await question();
      await w.another().lanes.order('pay', 'log/0', 'earliest');
      await at(20);
      await stop();
      expect(await w.balance()).toBe(75);
    });
  });

  test('another record in the place of the one that was handled is another log', async () => {
    log.append(...five(10));
    await (await startUntil({}, 10)).stop();
    const before = (await row())!;
    await w.store.lanes.begin('pay', 'log/0', before.epoch, {
      position: 10n,
      log: before.log!,
      mark: before.mark!.replace(/hash=\w+/, 'hash=00'),
    });
    const warnings = await warningsOf('NT_LOG_CHANGED');
    log.append(...five(1));
    const { stop } = start();
    await until('asked', async () => (await warnings.read()).length > 0, WITHIN_MS);
    expect(await w.balance()).toBe(50);
    await w.another().lanes.order('pay', 'log/0', 'position');
    await at(11);
    await stop();
    expect(await w.balance()).toBe(55);
  });

  test('C97: a database that lost even the row of the lane asks, since the group says that the consumer was there', async () => {
    log.append(...five(10));
    await (await startUntil({}, 10)).stop();
    await w.sql`UPDATE wallet SET balance = 0 WHERE account = 'a'`;
    await w.forgetLanes();
    log.append(...five(1));
    const warnings = await warningsOf('NT_LOG_CHANGED');
    const { stop } = start();
    await until('asked', async () => (await warnings.read()).length > 0, WITHIN_MS);
    expect(await w.balance()).toBe(0);
    await w.another().lanes.order('pay', 'log/0', 'earliest');
    await at(11);
    await stop();
    expect(await w.balance()).toBe(55);
  });

  test('an offset that was there before the consumer is no news, also when it dies before it commits its own', async () => {
    log.append(...five(10));
    log.reset(4n);
    const dead = start(
      {},
      { points: { reach: where => (where.step === 'settle' && where.edge === 'before' ? broken() : undefined) } },
    );
    await expect(dead.done).rejects.toThrow('on purpose');
    expect((await row())?.position).toBe(10n);
    expect(log.committed).toEqual({ offset: 4n, position: 4n });
    const warnings = await warningsOf('NT_OFFSET_RESET');
    log.append(...five(1));
    await (await startUntil({}, 11)).stop();
    expect(await w.balance()).toBe(35);
    expect(await warnings.read()).toEqual([]);
  });

  const broken = () => {
    throw new Error('on purpose');
  };

  test('a conflict that is none any more when it is set aside is handled, and not passed over', async () => {
    log.append({ id: 'x', body: { amount: 5 } }, { id: 'y', body: { amount: 5 } });
    await (await startUntil({ dedupe: 'both' }, 2)).stop();
    log.append({ id: 'x', body: { amount: 20 } }, { id: 'z', body: { amount: 5 } });
    let forgotten = false;
    const reach = async ({ step, edge }: PointAt) => {
      if (step !== 'record' || edge !== 'after' || forgotten) return;
      forgotten = true;
      await w.forgetIds();
    };
    const { stop } = start({ dedupe: 'both' }, { points: { reach } });
    await at(4);
    expect(await stop()).toMatchObject({ processed: 2, deadLetters: 0, conflicts: 0 });
    expect(await w.balance()).toBe(35);
  });

  test('a lane that has nothing to do obeys an answer, too', async () => {
    log.append(...five(10));
    const clock: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 50), signal) };
    const { stop } = start({ clock });
    await at(10);
    await w.another().lanes.order('pay', 'log/0', 'earliest');
    await until('done again', async () => (await w.balance()) === 100, WITHIN_MS);
    await stop();
    expect(await row()).toMatchObject({ position: 10n, beginAt: undefined });
  });

  test('a run that has ended holds nothing of the store any more: it waits for its last look at the lane', async () => {
    const answer = Promise.withResolvers<void>();
    const looking = Promise.withResolvers<void>();
    const clock: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 20), signal) };
    const { consumer, done } = start({ clock });
    log.append(...five(1));
    await at(1);
    vi.spyOn(w.store.lanes, 'list').mockImplementation(async () => {
      looking.resolve();
      await answer.promise;
      return [];
    });
    await looking.promise;
    let ended = false;
    const stopped = consumer.stop({ withinMs: 0 }).then(() => {
      ended = true;
    });
    for (let turns = 0; turns < 50; turns++) await setImmediate();
    expect(ended).toBe(false);
    answer.resolve();
    await stopped;
    await done;
  });

  test('a broker that does not answer does not hold up a stop', async () => {
    const source = log.source();
    const asked = Promise.withResolvers<void>();
    const silent: Source = {
      ...source,
      async *receive(options) {
        for await (const lane of source.receive(options)) {
          const inspect = () => {
            asked.resolve();
            return new Promise<never>(() => undefined);
          };
          yield { ...lane, log: { ...lane.log!, inspect } };
        }
      },
    };
    const { stop } = start({ source: silent });
    await asked.promise;
    await endsWithin(2_000, 'the stop', stop());
  });

  test('types are not regrouped by position: what a full transaction leaves out is its end, and nothing else', async () => {
    log.append(...Array.from({ length: 24 }, (_, i) => ({ body: i, type: i % 2 === 0 ? 'a' : 'b', key: `k${i}` })));
    const done: number[] = [];
    const slowly = async (message: { body: unknown }, context: { sql: any }) => {
      // A transaction is full after twice its budget.
      await new Promise(resolve => setTimeout(resolve, 3));
      await credit(context, 5);
      done.push(message.body as number);
    };
    const { stop } = start({
      maxBatch: 24,
      batchBudgetMs: 2,
      handle: undefined,
      handlers: { a: { handle: slowly }, b: { handle: slowly } },
    } as never);
    await at(24);
    expect(await stop()).toMatchObject({ processed: 24, failed: 0 });
    expect(done).toEqual(Array.from({ length: 24 }, (_, i) => i));
    expect(await w.balance()).toBe(120);
  });

  test.each(
    [11, 12, 13, 14, 15, 16].flatMap(seed => (['position', 'both'] as const).map(dedupe => ({ seed, dedupe }))),
  )(
    'whatever goes wrong, each effect once and in order ($dedupe, seed $seed)',
    async ({ seed, dedupe }) => {
      const random = seeded(seed).next;
      const total = 60;
      const records = Array.from({ length: total }, (_, i) => ({
        // Copies, some in one batch, some bad, some of another type.
        id: random() < 0.2 && i > 0 ? `m${i - 1 - Math.floor(random() * Math.min(i, 5))}` : `m${i}`,
        body: i,
        type: random() < 0.3 ? 'b' : 'a',
        ...(random() < 0.5 ? {} : { key: `k${i % 7}` }),
      }));
      await w.sql`CREATE TABLE ledger (n integer NOT NULL, at integer NOT NULL)`;
      let sequence = 0;
      const takeOvers: Promise<unknown>[] = [];
      const other = w.another();
      const takeOver = () => takeOvers.push(outside.runInAsyncScope(() => other.lanes.raise('pay', 'log/0')));
      const effect = async (n: number, context: any) => {
        const dice = random();
        if (dice < 0.03) throw new Error('on purpose');
        if (dice < 0.06) log.rebalance();
        // Not awaited: on SQLite it waits for this very transaction.
        else if (dice < 0.09) takeOver();
        await context.sql`INSERT INTO ledger (n, at) VALUES (${n}, ${sequence++})`;
      };
      const handleBatch = async (messages: readonly any[], context: any) => {
        for (const message of messages) await effect(message.body, context);
      };
      log.append(...records.slice(0, 30));
      const { stop } = start({
        dedupe,
        identity: Object.assign((raw: any) => raw.headers.get('message-id'), { signature: 'h' }) as never,
        retries: { attempts: 1_000, minMs: 0, maxMs: 1 },
        fingerprint: false,
        maxBatch: 12,
        handle: undefined,
        handlers: {
          a: { handle: (message: any, context: any) => effect(message.body, context) },
          b:
            random() < 0.5
              ? { handleBatch }
              : { handle: (message: any, context: any) => effect(message.body, context) },
        },
      } as never);
      log.append(...records.slice(30));
      await at(total);
      await Promise.all(takeOvers);
      await stop();
      const rows = await w.sql<{ n: number }>`SELECT n FROM ledger ORDER BY at`;
      const firsts = records.flatMap(({ id }, i) => (records.findIndex(other => other.id === id) === i ? [i] : []));
      expect(rows.map(({ n }) => Number(n)).toSorted((a, b) => a - b)).toEqual(
        dedupe === 'both' ? firsts : records.map((_, i) => i),
      );
      expect(isRising(log.commits)).toBe(true);
    },
    60_000,
  );

  test.each(
    (['claim', 'handle', 'record', 'settle'] as const).flatMap(step =>
      (['before', 'after'] as const).map(edge => ({ step, edge })),
    ),
  )('broken off $edge $step: the next owner goes on exactly there', async ({ step, edge }) => {
    log.append(...five(9));
    let left = 2;
    const reach = (where: PointAt) => {
      if (where.step !== step || where.edge !== edge || left === 0) return undefined;
      left--;
      throw new Error('broken off');
    };
    for (let i = 0; i < 3; i++) {
      const { done, stop } = start(
        { maxBatch: 2, retries: { attempts: 1_000, minMs: 0, maxMs: 1 } },
        { points: { reach } },
      );
      // Inside the transaction it is one failed try, outside it ends the run.
      let ended = false;
      const onEnd = () => {
        ended = true;
      };
      done.then(onEnd, onEnd);
      await until('ended, or all done', async () => ended || (await row())?.position === 9n, WITHIN_MS);
      await stop().catch(() => undefined);
    }
    await at(9);
    expect(await w.balance()).toBe(45);
    expect(left).toBe(0);
  });
});

function isRising(offsets: readonly bigint[]): boolean {
  return offsets.every((offset, i) => i === 0 || offset >= offsets[i - 1]!);
}

test('a lease store cannot keep a position with the effects, and a source without a log has none', async () => {
  const consumer = createConsumer({
    name: 'pay',
    dedupe: 'position',
    store: memoryStore() as never,
    source: testLog().source(),
    handle: () => undefined,
  });
  await expect(consumer.run()).rejects.toMatchObject({ code: 'NT_CONFIG' });
  expect(() => createConsumer({ name: 'pay', dedupe: 'both', overlap: 'by-key', handle: () => undefined })).toThrow(
    /out of order/,
  );
  const other = createConsumer({
    name: 'pay',
    dedupe: 'position',
    store: sqliteStore(':memory:'),
    source: memoryBroker({ partitions: 1 }).source(),
    handle: () => undefined,
  });
  const run = other.run();
  await expect(run).rejects.toMatchObject({ code: 'NT_CONFIG' });
});
