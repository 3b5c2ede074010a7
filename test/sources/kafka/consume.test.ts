import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createConsumer, type Source, type Summary } from '../../../src/index.ts';
import { kafkaSource } from '../../../src/sources/kafka/index.ts';
import { availableKafkaClients, forEachKafkaClient } from '../../support/each-kafka-client.ts';
import { startKafka } from '../../support/kafka.ts';
import type { ClientSettings } from '../../support/kafka-clients.ts';
import { freshTopic, type TestTopic } from '../../support/kafka-topics.ts';
import { endsWithin, until } from '../../support/until.ts';
import { credit, onPostgres, type WalletStore } from '../../support/wallet.ts';

// Rebalances on a machine that runs other suites, other brokers among them, meanwhile.
const WITHIN_MS = 60_000;
vi.setConfig({ testTimeout: 120_000 });

let topic: TestTopic;
let w: WalletStore;
const stops: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  w = await onPostgres();
});
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
  await topic.close();
  await w.drop();
});

const message = (id: string, key = 'a') => ({
  key,
  value: JSON.stringify({ amount: 5 }),
  headers: { 'message-id': id },
});
const ids = (n: number, from = 0) => Array.from({ length: n }, (_, i) => `m${from + i}`);

type Options = Partial<Parameters<typeof createConsumer<WalletStore['store']>>[0]>;

const committed = (offset: number) => async () => (await topic.committed())[0] === offset;

function startOn(from: Source, options: Options = {}, store = w.store) {
  const consumer = createConsumer({
    name: 'pay',
    source: from,
    store,
    retries: { minMs: 5, maxMs: 20 },
    handle: (_, context) => credit(context, 5),
    ...options,
  } as Parameters<typeof createConsumer<WalletStore['store']>>[0]);
  const done: Promise<Summary> = consumer.run();
  done.catch(() => undefined);
  const stop = async () => {
    await consumer.stop({ withinMs: 5_000 });
    return done;
  };
  stops.push(stop);
  return { consumer, stop };
}

forEachKafkaClient(client => {
  function source(settings: ClientSettings = {}) {
    const made = client.make(undefined, { sessionTimeoutMs: 6_000, heartbeatMs: 500, ...settings });
    return kafkaSource({ client: made, topics: [topic.name], groupId: topic.group });
  }

  const start = (options: Options = {}, from = source(), store = w.store) => startOn(from, options, store);

  test('copies with offsets of their own count once; the group ends at the next offset to read', async () => {
    topic = await freshTopic();
    await topic.send([...ids(20), ...ids(20)].map(id => message(id)));
    const { stop } = start();
    await until('all are committed', committed(40), WITHIN_MS);
    expect(await stop()).toMatchObject({ processed: 20, duplicates: 20 });
    expect(await w.balance()).toBe(100);
  });

  test('C61: a handler that always fails moves no offset, also when the consumer leaves', async () => {
    topic = await freshTopic();
    await topic.send(ids(3).map(id => message(id)));
    let tries = 0;
    const { stop } = start({
      retries: { attempts: 1_000, minMs: 1, maxMs: 5 },
      handle: () => {
        tries++;
        throw new Error('no');
      },
    });
    await until('three tries', () => tries >= 3, WITHIN_MS);
    await stop();
    expect((await topic.committed())[0]).toBeLessThanOrEqual(0);
    expect(await w.inboxRows()).toBe(0);
  });

  describe.each([
    [
      'a synchronous throw',
      () => {
        throw new Error('no');
      },
    ],
    ['a rejection', () => Promise.reject(new Error('no'))],
    [
      'a thrown string',
      () => {
        throw 'no';
      },
    ],
    [
      'a thrown undefined',
      () => {
        throw undefined;
      },
    ],
  ] as const)('C22: offset 2 fails at its first try with %s', (_, fail) => {
    test('it is tried again and counted; nothing is lost', async () => {
      topic = await freshTopic();
      await topic.send(ids(5).map(id => message(id)));
      let failed = false;
      const { stop } = start({
        handle: async ({ id }, context) => {
          if (id === 'm2' && !failed) {
            failed = true;
            await fail();
          }
          await credit(context, 5);
        },
      });
      await until('all are committed', committed(5), WITHIN_MS);
      expect(await stop()).toMatchObject({ processed: 5, failed: 1, deadLetters: 0 });
      expect(await w.balance()).toBe(25);
    });
  });

  test('C52: a partition that moves in mid-batch: the old owner starts nothing more and commits nothing more', async () => {
    topic = await freshTopic(2);
    await topic.send(ids(10).map(id => ({ ...message(id), partition: 0 })));
    await topic.send(ids(10, 10).map(id => ({ ...message(id), partition: 1 })));
    const go = Promise.withResolvers<void>();
    const inHand = new Set<string>();
    const first = start({
      concurrency: 2,
      handle: async ({ id }, context) => {
        inHand.add(id);
        await go.promise;
        await credit(context, 5);
      },
    });
    await until('both lanes are in work', () => inHand.size === 2, WITHIN_MS);
    const second = start({ name: 'pay' }, source(), w.another());
    // A client that holds the rebalance back waits for what is in hand.
    const there = client.holdsRebalances ? topic.arrived : topic.members;
    await until('both are members', async () => (await there()) === 2, WITHIN_MS);
    go.resolve();
    await until('all are committed', async () => (await topic.committed()).every(offset => offset === 10), WITHIN_MS);
    const [one, two] = [await first.stop(), await second.stop()];
    expect(one.processed + two.processed).toBe(20);
    expect(await w.balance()).toBe(100);
  });

  test('C57: a handler longer than the session keeps its membership, and its work is done once', async () => {
    topic = await freshTopic();
    await topic.send(ids(2).map(id => message(id)));
    let runs = 0;
    const slow: Options = {
      handle: async (_, context) => {
        if (++runs === 1) await new Promise(resolve => setTimeout(resolve, 9_000));
        await credit(context, 5);
      },
    };
    const one = start(slow);
    const two = start(slow, source(), w.another());
    await until('all are committed', committed(2), WITHIN_MS);
    const [a, b] = [await one.stop(), await two.stop()];
    expect(a.processed + b.processed).toBe(2);
    expect(runs).toBe(2);
    expect(await w.balance()).toBe(10);
  });

  test('handlers by the type in a header; tombstones and bytes reach them', async () => {
    topic = await freshTopic();
    await topic.send([
      { key: 'k', value: null, headers: { 'message-id': 't1', type: 'gone' } },
      { key: null, value: Buffer.from([1, 2, 3]), headers: { 'message-id': Buffer.from('t2'), type: 'bytes' } },
    ]);
    const seen: unknown[] = [];
    const { stop } = start({
      handle: undefined as never,
      handlers: {
        gone: {
          handle: ({ body, key }: { body: unknown; key: unknown }, context: never) => {
            seen.push([key, body]);
            return credit(context, 1);
          },
        },
        bytes: {
          decode: (value: Uint8Array | string) => [...Buffer.from(value as Uint8Array)],
          handle: ({ body, time }: { body: unknown; time: Date | undefined }, context: never) => {
            seen.push([body, time instanceof Date]);
            return credit(context, 1);
          },
        },
      },
    } as Options);
    await until('both are committed', committed(2), WITHIN_MS);
    await stop();
    expect(seen).toEqual([
      ['k', null],
      [[1, 2, 3], true],
    ]);
  });

  test('C29: a header that repeats with other values is ambiguous, and a dead letter; the lane goes on', async () => {
    topic = await freshTopic();
    await topic.send([
      { ...message('m0'), headers: { 'message-id': ['m0', 'm1'] } },
      { ...message('m2'), headers: { 'message-id': ['m2', 'm2'] } },
    ]);
    const { stop } = start();
    await until('both are committed', committed(2), WITHIN_MS);
    expect(await stop()).toMatchObject({ processed: 1, deadLetters: 1 });
    expect(await w.deadLetters()).toMatchObject([{ kind: 'bad-id' }]);
  });

  test('two members of one group that read different topics: every partition of both is read', async () => {
    topic = await freshTopic(2);
    const other = await freshTopic(2);
    onTestFinished(() => other.close());
    const reading = (...topics: string[]) => {
      const made = client.make(undefined, { sessionTimeoutMs: 6_000, heartbeatMs: 500 });
      return start({}, kafkaSource({ client: made, topics, groupId: topic.group }), w.another());
    };
    // Whoever comes first leads the group, and knows nothing of what the other one reads.
    const first = reading(topic.name);
    await until('one is there', async () => (await topic.members()) === 1, WITHIN_MS);
    const second = reading(other.name, topic.name);
    await until('both are there', async () => (await topic.members()) === 2, WITHIN_MS);
    for (const partition of [0, 1]) {
      await topic.send([{ ...message(`t${partition}`), partition }]);
      await other.send([{ ...message(`o${partition}`), partition }]);
    }
    await until('all are handled', async () => (await w.balance()) === 20, WITHIN_MS);
    await first.stop();
    await second.stop();
  });

  test('a topic that does not exist: run rejects and says so', async () => {
    topic = await freshTopic();
    const missing = kafkaSource({ client: client.make(), topics: ['nowhere'], groupId: topic.group });
    const consumer = createConsumer({
      name: 'pay',
      source: missing,
      store: w.store,
      handle: (_, { sql }) => sql`SELECT 1`,
    });
    await expect(consumer.run()).rejects.toMatchObject({ code: 'NT_CONFIG' });
  });

  test('partitions that are added while it runs are read from their first record', async () => {
    topic = await freshTopic();
    await topic.send([message('m0')]);
    // The client looks for new partitions when its metadata is this old; its default is five minutes.
    const { stop } = start({}, source({ metadataMaxAgeMs: 500 }));
    await until('the first is committed', committed(1), WITHIN_MS);
    await topic.addPartitions(3);
    // The new ones may have no leader yet; then the producer sends again what another partition has taken: a copy.
    await topic.send([
      { ...message('m1'), partition: 1 },
      { ...message('m2'), partition: 2 },
    ]);
    await until('all are committed', async () => (await topic.committed()).every(offset => offset >= 1), WITHIN_MS);
    expect(await stop()).toMatchObject({ processed: 3 });
  });

  test('a topic that is deleted and made again: its new records have old offsets, and none is taken for an old one', async () => {
    topic = await freshTopic();
    await topic.send(ids(20).map(id => message(id)));
    const { stop } = start();
    await until('all are committed', committed(20), WITHIN_MS);
    await topic.recreate();
    await topic.send(ids(10, 20).map(id => message(id)));
    await until('the new ones are handled', async () => (await w.balance()) === 150, WITHIN_MS);
    expect(await stop()).toMatchObject({ processed: 30, conflicts: 0, deadLetters: 0 });
  });

  test('records of an aborted transaction are never handled, and its markers stall nothing', async () => {
    topic = await freshTopic();
    await topic.send([message('m0')]);
    await topic.inTransaction([message('m1'), message('m2')], 'abort');
    await topic.inTransaction([message('m3')], 'commit');
    await topic.send([message('m4')]);
    const seen: string[] = [];
    const { stop } = start({
      handle: ({ id }, context) => {
        seen.push(id);
        return credit(context, 5);
      },
    });
    // m0, m1, m2, the marker, m3, the marker, m4: the next one has offset 7.
    await until('all are committed', committed(7), WITHIN_MS);
    expect(await stop()).toMatchObject({ processed: 3 });
    expect(seen).toEqual(['m0', 'm3', 'm4']);
  });
});

// All clients at once: what takes long is to give up, and the broker.
const available = availableKafkaClients();
const names = available.map(({ name }) => name).join(', ');

test(`no broker at the start: run rejects with NT_SOURCE_DOWN (${names})`, async () => {
  topic = await freshTopic();
  await Promise.all(
    available.map(async client => {
      const consumer = createConsumer({
        name: client.name,
        source: kafkaSource({ client: client.make('127.0.0.1:1'), topics: [topic.name], groupId: topic.group }),
        store: w.store,
        handle: (_, { sql }) => sql`SELECT 1`,
      });
      await expect(consumer.run(), client.name).rejects.toMatchObject({ code: 'NT_SOURCE_DOWN' });
    }),
  );
});

test(`a broker that is gone does not hold up a stop (${names})`, async () => {
  const server = await startKafka();
  topic = await freshTopic(1, server.brokers);
  try {
    await topic.send([message('m0')]);
    const running = available.map(client => {
      const from = {
        client: client.make(server.brokers),
        topics: [topic.name],
        groupId: `${topic.group}-${client.name}`,
      };
      return { client, ...startOn(kafkaSource(from), { name: client.name }) };
    });
    for (const { client, consumer } of running) {
      await until(`${client.name} has handled the first`, () => consumer.summary.processed === 1, WITHIN_MS);
    }
    await server.kill();
    await Promise.all(running.map(({ client, stop }) => endsWithin(15_000, `${client.name} stops`, stop())));
    expect(await w.balance()).toBe(5 * available.length);
  } finally {
    await server.stop();
  }
});
