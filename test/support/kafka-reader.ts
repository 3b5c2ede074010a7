import { randomUUID } from 'node:crypto';
import { brokers } from './kafka.ts';
import type { TestTopic } from './kafka-topics.ts';
import { testKafka } from './kafka-topics.ts';

export interface ReadRecord {
  readonly partition: number;
  readonly offset: number;
  readonly key: string | null;
  readonly value: string | null;
  readonly headers: Readonly<Record<string, unknown>>;
}

/**
 * All records of the topic that a reader with `read_committed` gets, up to now. Writes an end mark to every partition and reads
 * up to it, so that a transaction which nobody ends fails the test by its time limit.
 */
export async function readCommitted(topic: TestTopic, at = brokers()): Promise<readonly ReadRecord[]> {
  const end = `end-${randomUUID()}`;
  const partitions = (await topic.ends()).length;
  await topic.send(Array.from({ length: partitions }, (_, partition) => ({ partition, value: end })));
  const consumer = testKafka('reader', at).consumer({ groupId: `r-${randomUUID()}`, maxWaitTimeInMs: 100 });
  const found: ReadRecord[] = [];
  const ended = new Set<number>();
  const all = Promise.withResolvers<void>();
  await consumer.connect();
  try {
    await consumer.subscribe({ topics: [topic.name], fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        const value = message.value?.toString() ?? null;
        if (value === end) {
          ended.add(partition);
          if (ended.size === partitions) all.resolve();
        } else if (value?.startsWith('end-') !== true) {
          const { key, offset, headers = {} } = message;
          found.push({ partition, offset: Number(offset), key: key?.toString() ?? null, value, headers });
        }
      },
    });
    await all.promise;
  } finally {
    await consumer.disconnect();
  }
  return found;
}
