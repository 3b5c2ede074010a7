import { randomUUID } from 'node:crypto';
import type { Kafka, Producer } from 'kafkajs';
import { brokers } from './kafka.ts';
import { testKafka as quietKafka } from './kafka-client.ts';

/** A client of the shared broker. */
export function testKafka(clientId = 'test', at = brokers()): Kafka {
  return quietKafka(clientId, at);
}

export interface TestTopic {
  readonly name: string;
  readonly group: string;
  send(messages: readonly TestRecord[]): Promise<void>;
  /** The group's next-to-read offset of each partition; -1 where it has committed nothing. */
  committed(): Promise<readonly number[]>;
  /** Members of the group once it is stable; 0 before. */
  members(): Promise<number>;
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
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic: name, numPartitions: partitions }] });
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
    async committed() {
      // A group that was named a moment ago may not have its coordinator yet.
      const fetched = await admin.fetchOffsets({ groupId: group, topics: [name] }).catch(() => undefined);
      if (fetched === undefined) return Array.from({ length: partitions }, () => -1);
      return fetched[0]!.partitions.toSorted((a, b) => a.partition - b.partition).map(({ offset }) => Number(offset));
    },
    async members() {
      const { groups } = await admin.describeGroups([group]);
      return groups[0]?.state === 'Stable' ? groups[0].members.length : 0;
    },
    async close() {
      await producer?.disconnect();
      await admin.disconnect();
    },
  };
}
