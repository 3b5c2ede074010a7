import { afterEach, beforeEach, expect, test } from 'vitest';
import { createConsumer } from '../../src/index.ts';
import { memoryBroker, memoryStore } from '../../src/memory.ts';
import { watched } from './sources.ts';

// Sources say whether a lane may be asked for its next batch while one is in work; the memory source does.

let store: ReturnType<typeof memoryStore>;
beforeEach(() => {
  store = memoryStore();
});
afterEach(() => store.close());

/** A handler that stands still at the first message until it is let go, and what it has seen. */
function slowHandler() {
  const arrived = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const seen: string[] = [];
  const handle = async ({ id }: { id: string }) => {
    seen.push(id);
    arrived.resolve();
    await go.promise;
  };
  return { handle, seen, arrived: arrived.promise, go: () => go.resolve() };
}

/** The default identity, counted. */
function countingIdentity() {
  const waiting: { count: number; resolve: () => void }[] = [];
  let identified = 0;
  const identity = Object.assign(
    (raw: { headers: { get(name: string): string | undefined } }) => {
      identified++;
      for (const one of waiting) if (identified >= one.count) one.resolve();
      return raw.headers.get('message-id')!;
    },
    { signature: 'counted' },
  );
  const reached = (count: number) =>
    new Promise<void>(resolve => {
      if (identified >= count) resolve();
      else waiting.push({ count, resolve });
    });
  return { identity, reached, count: () => identified };
}

function brokerWith(count: number) {
  const broker = memoryBroker({ partitions: 1 });
  for (let i = 0; i < count; i++) broker.send({ id: `m${i}`, body: {} });
  return broker;
}

test('the next batch is received and identified while one is in work; one, and no handler of it runs', async () => {
  const { handle, seen, arrived, go } = slowHandler();
  const { identity, reached, count } = countingIdentity();
  const watch = watched(brokerWith(30).source({ finite: true }));
  const consumer = createConsumer({ name: 'pay', store, identity, maxBatch: 5, handle });
  const done = consumer.run({ source: watch.source });
  await arrived;
  await reached(10);
  expect(seen).toEqual(['m0']);
  go();
  expect(await done).toMatchObject({ processed: 30 });
  expect(seen).toEqual(Array.from({ length: 30 }, (_, i) => `m${i}`));
  expect(watch.mostUnsettled).toBe(10);
  expect(count()).toBe(30);
});

test('a stop leaves what was read ahead to the next run: not handled, not settled', async () => {
  const { handle, seen, arrived, go } = slowHandler();
  const { identity, reached } = countingIdentity();
  const broker = brokerWith(10);
  const watch = watched(broker.source({ group: 'g' }));
  const consumer = createConsumer({ name: 'pay', store, identity, maxBatch: 5, handle });
  const done = consumer.run({ source: watch.source });
  await arrived;
  await reached(10);
  const stopped = consumer.stop();
  go();
  await stopped;
  await done;
  expect(seen.length).toBeLessThanOrEqual(5);
  expect(watch.settlements.length).toBe(seen.length);
  expect(await consumer.run({ source: broker.source({ group: 'g', finite: true }) })).toMatchObject({ processed: 10 });
  expect(new Set(seen).size).toBe(10);
  expect(seen.length).toBe(10);
});

test('a lane that is taken away takes along what was read ahead of it: its next owner gets it', async () => {
  const { handle, seen, arrived, go } = slowHandler();
  const { identity, reached } = countingIdentity();
  const broker = brokerWith(10);
  const watch = watched(broker.source({ group: 'g', finite: true }));
  const consumer = createConsumer({ name: 'pay', store, identity, maxBatch: 5, handle });
  const done = consumer.run({ source: watch.source });
  await arrived;
  await reached(10);
  broker.rebalance();
  go();
  await done;
  expect(new Set(seen).size).toBe(10);
  expect(seen.length).toBe(10);
  expect(watch.settledAfterRevocation).toBe(0);
  expect(broker.pending('g')).toBe(0);
});

test('a source that breaks while it reads ahead: what is in work is settled first, then run rejects', async () => {
  const { handle, seen, arrived, go } = slowHandler();
  const inner = brokerWith(10).source();
  const broken = Promise.withResolvers<void>();
  let asked = 0;
  const source = {
    ...inner,
    receive(options: Parameters<typeof inner.receive>[0]) {
      const lanes = inner.receive(options)[Symbol.asyncIterator]();
      return {
        [Symbol.asyncIterator]: () => ({
          async next() {
            const next = await lanes.next();
            if (next.done === true) return next;
            const lane = next.value;
            const receive: typeof lane.receive = (max, signal) => {
              if (++asked === 1) return lane.receive(max, signal);
              broken.resolve();
              return Promise.reject(new Error('the broker is gone'));
            };
            return {
              done: false as const,
              value: { id: lane.id, revoked: lane.revoked, receive, settle: lane.settle.bind(lane) },
            };
          },
          return: async () => (await lanes.return?.()) ?? { done: true as const, value: undefined },
        }),
      };
    },
  };
  const watch = watched(source);
  const consumer = createConsumer({ name: 'pay', store, maxBatch: 5, handle });
  const done = consumer.run({ source: watch.source });
  await arrived;
  await broken.promise;
  go();
  await expect(done).rejects.toThrow('the broker is gone');
  expect(seen.length).toBe(5);
  expect(watch.settlements.map(({ settle }) => settle)).toEqual(Array(5).fill('ack'));
});
