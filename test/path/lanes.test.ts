import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createConsumer, type Lane, type Source } from '../../src/index.ts';
import { memoryBroker } from '../../src/memory.ts';
import { SEED, seeded } from '../support/random.ts';
import { endsWithin, until } from '../support/until.ts';
import { watched } from './sources.ts';
import { type AnyStore, allStores, freshName } from './stores.ts';
import { warningsOf } from './warnings.ts';

describe.each(allStores)('$name', ({ name: storeName, create }) => {
  let s: AnyStore;
  beforeAll(async () => {
    s = await create();
  });
  afterAll(() => s.drop());

  test.each(['goes on', 'fails'] as const)(
    'a lane is taken away while a handler runs, which then %s: all or nothing, nothing settled, each effect once',
    async ending => {
      const [name, wallet] = [freshName(), await s.wallet()];
      const broker = memoryBroker({ partitions: 1 });
      for (let i = 0; i < 6; i++) broker.send({ id: `m${i}` });
      const [started, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const begun: (readonly [string, number])[] = [];
      const watch = watched(broker.source({ finite: true }));
      const consumer = createConsumer({
        name,
        store: s.store,
        retries: { minMs: 1, maxMs: 2 },
        handle: async (message, context) => {
          begun.push([message.id, message.attempt]);
          if (message.id === 'm2' && begun.length === 3) {
            started.resolve();
            await goOn.promise;
            if (ending === 'fails') throw new Error('cannot');
          }
          await wallet.credit(context, 1);
        },
      });
      const running = consumer.run({ source: watch.source });
      await started.promise;
      broker.rebalance();
      for (let i = 0; i < 20; i++) await nextTurn();
      // The new lane of the same consumer must not be settled either until its own batch is committed.
      expect(watch.settlements).toEqual([]);
      goOn.resolve();
      const summary = await running;
      expect(watch.settledAfterRevocation).toBe(0);
      expect(await wallet.balance()).toBe(6);
      expect(await s.done(name)).toBe(6);
      expect(summary.processed).toBe(6);
      expect(broker.pending(name)).toBe(0);
      // After the loss nothing of that batch is begun: what stood behind m2 is only seen as the next owner's delivery.
      expect(begun.filter(([id]) => id! >= 'm3')).toEqual(['m3', 'm4', 'm5'].map(id => [id, 2]));
    },
  );

  test(`two consumers of a group under rebalances, lost acks and redeliveries: each effect once (seed ${SEED})`, async () => {
    const [name, wallet, random] = [freshName(), await s.wallet(), seeded(SEED)];
    const broker = memoryBroker({ partitions: 3 });
    const consumers = [s.store, s.another()].map(store => {
      const watch = watched(broker.source());
      const consumer = createConsumer({
        name,
        store,
        maxBatch: 8,
        concurrency: 3,
        handle: async (_, context) => {
          for (let i = random.below(3); i > 0; i--) await nextTurn();
          await wallet.credit(context, 1);
        },
      });
      return { consumer, watch, running: consumer.run({ source: watch.source }) };
    });
    for (let round = 0; round < 12; round++) {
      for (let i = 0; i < 10; i++) broker.send({ id: `m${round * 10 + i}`, key: `k${i}` });
      if (random.chance(0.5)) broker.loseAcks(random.below(6));
      await until('some are done', async () => (await s.done(name)) >= round * 8);
      if (random.chance(0.6)) broker.rebalance();
      if (random.chance(0.3)) broker.expire();
      if (random.chance(0.3))
        broker.redeliver(`m${random.below(round * 10 + 1)}`, { as: random.chance(0.5) ? 'resend' : 'redelivery' });
    }
    await until('everything is settled', () => {
      broker.expire();
      return broker.pending(name) === 0;
    });
    for (const { consumer } of consumers) await consumer.stop();
    const summaries = await Promise.all(consumers.map(({ running }) => running));
    for (const { watch } of consumers) expect(watch.settledAfterRevocation).toBe(0);
    expect(await wallet.balance()).toBe(120);
    expect(await s.done(name)).toBe(120);
    expect(summaries.reduce((sum, { processed }) => sum + processed, 0)).toBe(120);
    expect(summaries.every(({ deadLetters, conflicts, failed }) => deadLetters + conflicts + failed === 0)).toBe(true);
    if (storeName !== 'memory') expect(await s.deadLetters(name)).toEqual([]);
  });

  test('a settle that the source refuses: a warning, and the copy that comes again is a duplicate', async () => {
    const [name, wallet, warnings] = [freshName(), await s.wallet(), await warningsOf('NT_SETTLE_FAILED')];
    const broker = memoryBroker({ partitions: 1 });
    broker.send({ id: 'm1' });
    let refusals = 0;
    const watch = watched(broker.source({ finite: true }), () => {
      if (refusals++ === 0) throw new Error('channel closed');
    });
    const consumer = createConsumer({ name, store: s.store, handle: (_, context) => wallet.credit(context, 500) });
    const running = consumer.run({ source: watch.source });
    await until('the first settle was refused', () => refusals > 0);
    expect(await wallet.balance()).toBe(500);
    broker.expire();
    expect(await running).toEqual({ processed: 1, duplicates: 1, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(await wallet.balance()).toBe(500);
    expect(await warnings.read()).toEqual([`${name}: the source refused an acknowledgement: channel closed`]);
  });

  test.each(['receive of a lane', 'the list of lanes', 'its very start'] as const)(
    'a source that breaks in %s: the other lane finishes and is settled, then run rejects with that error',
    async where => {
      const [name, wallet] = [freshName(), await s.wallet()];
      const thrown = new Error('connection reset');
      const [started, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const broker = memoryBroker({ partitions: 1 });
      broker.send({ id: 'm1' });
      broker.send({ id: 'm2' });
      const watch = watched(broker.source());
      const source = breaking(watch.source, where, started.promise, thrown);
      const handled: string[] = [];
      const consumer = createConsumer({
        name,
        store: s.store,
        maxBatch: 1,
        handle: async (message, context) => {
          handled.push(message.id);
          started.resolve();
          await goOn.promise;
          await wallet.credit(context, 500);
        },
      });
      const running = consumer.run({ source });
      const outcome = running.then(
        () => 'resolved',
        error => error,
      );
      if (where === 'its very start') {
        expect(await outcome).toBe(thrown);
        expect(handled).toEqual([]);
        return;
      }
      await started.promise;
      for (let i = 0; i < 20; i++) await nextTurn();
      expect(await Promise.race([outcome, 'still running'])).toBe('still running');
      goOn.resolve();
      expect(await endsWithin(5_000, 'the run', outcome)).toBe(thrown);
      expect(watch.settlements.map(({ settle }) => settle)).toEqual(['ack']);
      expect([handled, await wallet.balance(), broker.pending(name)]).toEqual([['m1'], 500, 1]);
      // A later run goes on from there.
      expect(await consumer.run({ source: broker.source({ finite: true }) })).toMatchObject({ processed: 2 });
      expect(await wallet.balance()).toBe(1000);
    },
  );
});

/** A source that gives its lanes, and fails in one place once `when` has come. */
function breaking(source: Source, where: string, when: Promise<void>, error: Error): Source {
  const broken: Lane = {
    id: 'broken/0',
    revoked: new AbortController().signal,
    receive: () => when.then(() => Promise.reject(error)),
    settle: async () => undefined,
  };
  return {
    ...source,
    receive(options) {
      if (where === 'its very start') throw error;
      const lanes = source.receive(options)[Symbol.asyncIterator]();
      let given = 0;
      return {
        [Symbol.asyncIterator]: () => ({
          async next() {
            if (++given === 1) return lanes.next();
            if (where === 'receive of a lane' && given === 2) return { done: false, value: broken };
            if (where === 'receive of a lane') return lanes.next();
            await when;
            throw error;
          },
          return: async () => (await lanes.return?.()) ?? { done: true, value: undefined },
        }),
      };
    },
  };
}
