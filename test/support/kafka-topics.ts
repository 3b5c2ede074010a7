import { randomUUID } from 'node:crypto';
import type { Admin, Kafka, Producer } from 'kafkajs';
import { brokers } from './kafka.ts';
import { testKafka as quietKafka } from './kafka-client.ts';
import { until } from './until.ts';

/** A client of the shared broker. */
export function testKafka(clientId = 'test', at = brokers()): Kafka {
  return quietKafka(clientId, at);
}

export interface TestTopic {
  readonly name: string;
  readonly group: string;
  send(messages: readonly TestRecord[]): Promise<void>;
  addPartitions(total: number): Promise<void>;
  /** Deletes the topic and makes it again, empty. */
  recreate(): Promise<void>;
  /** Sends in a transaction of its own, and ends it. */
  inTransaction(messages: readonly TestRecord[], end: 'commit' | 'abort'): Promise<void>;
  /** The group's next-to-read offset of each partition; -1 where it has committed nothing. */
  committed(): Promise<readonly number[]>;
  /** The offset behind the last record of each partition. */
  ends(): Promise<readonly number[]>;
  /** Members of the group once it is stable; 0 before. */
  members(): Promise<number>;
  /** Members of the group, also while it rebalances. */
  arrived(): Promise<number>;
  close(): Promise<void>;
}

export interface TestRecord {
  readonly key?: string | Buffer | null;
  readonly value: string | Buffer | null;
  readonly headers?: Record<string, string | Buffer | (string | Buffer)[]>;
  readonly partition?: number;
}

/** A topic of one test alone, with a name for its group. */
export async function freshTopic(partitions = 1, at = brokers()): Promise<TestTopic> {
  const name = `t-${randomUUID()}`;
  const group = `g-${randomUUID()}`;
  const kafka = testKafka('test', at);
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ waitForLeaders: false, topics: [{ topic: name, numPartitions: partitions }] });
  await until('its partitions are served', () => isServed(admin, name, partitions), 30_000);
  let producer: Producer | undefined;
  return {
    name,
    group,
    async send(messages) {
      if (producer === undefined) {
        producer = kafka.producer();
        await producer.connect();
      }
      await producer.send({
        topic: name,
        messages: messages.map(message => ({ ...message, key: message.key ?? null })),
      });
    },
    async addPartitions(total) {
      await admin.createPartitions({ topicPartitions: [{ topic: name, count: total }] });
      // The old one knows the old number for minutes.
      await producer?.disconnect();
      producer = undefined;
    },
    async recreate() {
      await admin.deleteTopics({ topics: [name] });
      const create = { topics: [{ topic: name, numPartitions: partitions }] };
      // The name is free a moment after the deletion was answered.
      let refusal: unknown;
      await until(
        'the topic is there again',
        () =>
          admin.createTopics(create).then(
            () => true,
            error => {
              refusal = error;
              return false;
            },
          ),
        30_000,
      ).catch(error => {
        throw new Error(`${error.message}: ${refusal}`, { cause: refusal });
      });
      await producer?.disconnect();
      producer = undefined;
    },
    async inTransaction(messages, end) {
      const transactional = kafka.producer({
        transactionalId: `x-${randomUUID()}`,
        maxInFlightRequests: 1,
        idempotent: true,
      });
      await transactional.connect();
      const transaction = await transactional.transaction();
      await transaction.send({
        topic: name,
        messages: messages.map(message => ({ ...message, key: message.key ?? null })),
      });
      await transaction[end]();
      await transactional.disconnect();
    },
    committed: async () => (await committedOf(admin, group, name)) ?? Array.from({ length: partitions }, () => -1),
    async ends() {
      const offsets = await admin.fetchTopicOffsets(name);
      return offsets.toSorted((a, b) => a.partition - b.partition).map(({ high }) => Number(high));
    },
    async members() {
      const { groups } = await admin.describeGroups([group]);
      return groups[0]?.state === 'Stable' ? groups[0].members.length : 0;
    },
    async arrived() {
      const { groups } = await admin.describeGroups([group]);
      return groups[0]?.members.length ?? 0;
    },
    async close() {
      await producer?.disconnect();
      await admin.disconnect();
    },
  };
}

/**
 * Whether a broker answers for every partition. Not the client's own wait for leaders: it fails while the broker has not
 * heard of the topic, and it ends before the named leader knows that it is one; the producer then sends the others' again.
 */
async function isServed(admin: Admin, topic: string, partitions: number): Promise<boolean> {
  const offsets = await admin.fetchTopicOffsets(topic).catch(() => undefined);
  return offsets?.length === partitions;
}

/** A group's next-to-read offsets by partition, -1 for none; undefined while the group has no coordinator yet. */
export async function committedOf(
  admin: Admin,
  groupId: string,
  topic: string,
): Promise<readonly number[] | undefined> {
  const fetched = await admin.fetchOffsets({ groupId, topics: [topic] }).catch(() => undefined);
  const known = fetched?.[0]?.partitions.toSorted((a, b) => a.partition - b.partition);
  return known?.map(({ offset }) => Number(offset));
}
