import { afterEach, describe, expect, test, vi } from 'vitest';
import { createConsumer } from '../../../src/index.ts';
import type { Member, MemberEvents, TopicPartition } from '../../../src/sources/kafka/client.ts';
import { confluent, kafkaSource } from '../../../src/sources/kafka/index.ts';
import { confluentMissing, testConfluent } from '../../support/confluent-client.ts';
import { brokers } from '../../support/kafka.ts';
import { freshTopic, type TestTopic } from '../../support/kafka-topics.ts';
import { until } from '../../support/until.ts';
import { credit, onPostgres, type WalletStore } from '../../support/wallet.ts';

// What this client can do and others cannot: it holds a rebalance back, and its partitions go one by one.

const WITHIN_MS = 30_000;
vi.setConfig({ testTimeout: 60_000 });

/** Members hear of a rebalance with their next heartbeat. */
const QUICK = { 'heartbeat.interval.ms': 300 };

const PROTOCOLS = [
  { protocol: 'eager', goes: [0, 1], settings: { ...QUICK, 'partition.assignment.strategy': 'range' } },
  {
    protocol: 'cooperative',
    goes: [expect.any(Number)],
    settings: { ...QUICK, 'partition.assignment.strategy': 'cooperative-sticky' },
  },
  { protocol: "the broker's (KIP-848)", goes: [expect.any(Number)], settings: { 'group.protocol': 'consumer' } },
];

const clientWith = (consumer: Record<string, unknown>) => confluent(testConfluent(brokers()), { consumer });

let topic: TestTopic;
afterEach(() => topic?.close());

describe.runIf(confluentMissing() === undefined).each(PROTOCOLS)('$protocol', ({ goes, settings }) => {
  test('the next owner gets a partition when the last one is done with it, and no other is touched', async () => {
    topic = await freshTopic(2);
    const done = Promise.withResolvers<void>();
    const first = listener(() => done.promise);
    const second = listener();
    const members: Member[] = [];
    try {
      members.push(await join(settings, first));
      await until('the first has both', () => first.owned.size === 2, WITHIN_MS);
      members.push(await join(settings, second));
      await until('the first is asked', () => first.asked.length > 0, WITHIN_MS);
      expect(first.asked).toEqual([goes]);
      expect([first.owned.size, second.owned.size]).toEqual([2, 0]);
      await members[0]!.commit([...first.owned].map(partition => ({ topic: topic.name, partition, offset: 5n })));
      done.resolve();
      await until('each has one', () => first.owned.size === 1 && second.owned.size === 1, WITHIN_MS);
      expect([...first.owned, ...second.owned].sort()).toEqual([0, 1]);
      expect(first.lost + second.lost).toBe(0);
      const [gone] = second.owned;
      // What a client sends for a partition that it has no more would put back the other one's offset.
      await expect(members[0]!.commit([{ topic: topic.name, partition: gone!, offset: 3n }])).rejects.toThrow();
      expect(await topic.committed()).toEqual([5, 5]);
    } finally {
      done.resolve();
      await Promise.all(members.map(member => member.leave()));
    }
  });

  test('members come and go in mid-work: every handler runs once', async () => {
    topic = await freshTopic(2);
    const w: WalletStore = await onPostgres();
    let sent = 0;
    const runs = new Map<string, number>();
    const send = () =>
      topic.send(
        Array.from({ length: 20 }, () => ({
          key: String(sent),
          value: '{}',
          headers: { 'message-id': `m${sent++}` },
        })),
      );
    const start = (store = w.store) => {
      const consumer = createConsumer({
        name: 'pay',
        source: kafkaSource({ client: clientWith(settings), topics: [topic.name], groupId: topic.group }),
        store,
        handle: async ({ id }, context) => {
          runs.set(id, (runs.get(id) ?? 0) + 1);
          await credit(context, 1);
        },
      });
      const ended = consumer.run();
      ended.catch(() => undefined);
      return { consumer, stop: () => consumer.stop().then(() => ended) };
    };
    const one = start();
    const two = start(w.another());
    const both = () => one.consumer.summary.processed > 0 && two.consumer.summary.processed > 0;
    await until('both are at work', async () => both() || (await send()), WITHIN_MS);
    await send();
    const left = await two.stop();
    await until('the other has done the rest', () => runs.size === sent, WITHIN_MS);
    const stayed = await one.stop();
    // Nothing even came twice: what was open was committed before the next owner began.
    expect(left.duplicates + stayed.duplicates).toBe(0);
    expect([...runs.values()].filter(n => n !== 1)).toEqual([]);
    expect(await w.balance()).toBe(sent);
    await w.drop();
  });
});

/** Notes what a member hears; `finish` is what it has still to do with partitions that go. */
function listener(finish: () => Promise<void> = async () => undefined) {
  const owned = new Set<number>();
  const asked: (readonly number[])[] = [];
  const take = (partitions: readonly TopicPartition[]) =>
    partitions.forEach(({ partition }) => void owned.add(partition));
  return {
    owned,
    asked,
    lost: 0,
    events(): MemberEvents {
      return {
        assigned: partitions => {
          owned.clear();
          take(partitions);
        },
        added: take,
        revoked: async (partitions = []) => {
          asked.push(partitions.map(({ partition }) => partition).sort());
          await finish();
          for (const { partition } of partitions) owned.delete(partition);
        },
        lost: () => void this.lost++,
        fetched: () => undefined,
        failed: error => {
          throw error;
        },
      };
    },
  };
}

function join(settings: Record<string, unknown>, to: ReturnType<typeof listener>): Promise<Member> {
  const joining = { groupId: topic.group, topics: [topic.name], from: 'earliest' } as const;
  return clientWith(settings).join(joining, to.events());
}
