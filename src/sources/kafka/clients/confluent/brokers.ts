import type { PartitionState, TopicPartition } from '../../client.ts';
import {
  type ConfluentAdminLike,
  type ConfluentConsumerLike,
  type ConfluentTopic,
  called,
  type InnerConsumer,
  type InnerOffset,
} from './client.ts';

const ANSWER_WITHIN_MS = 5_000;

/** What a member asks its brokers, over the connections that it has. Everything rejects when there is no answer in time. */
export class Brokers {
  readonly #consumer: ConfluentConsumerLike;
  readonly #inner: InnerConsumer;
  #admin: Promise<ConfluentAdminLike> | undefined;

  constructor(consumer: ConfluentConsumerLike, inner: InnerConsumer) {
    this.#consumer = consumer;
    this.#inner = inner;
  }

  /** What the first is; rejects when one of them does not exist or may not be read. */
  async describe(topics: readonly string[]): Promise<ConfluentTopic> {
    this.#admin ??= connected(this.#consumer.dependentAdmin()).catch(error => {
      this.#admin = undefined;
      throw error;
    });
    const admin = await this.#admin;
    const [first] = await admin.fetchTopicMetadata({ topics: [...topics], timeout: ANSWER_WITHIN_MS });
    if (first === undefined) throw new Error(`the broker says nothing of the topic ${topics[0]}`);
    return first;
  }

  /** The group's offsets, in the order of the partitions; without an offset where it has committed none. */
  async committed(partitions: readonly TopicPartition[]): Promise<readonly Partial<InnerOffset>[]> {
    const offsets = await called<readonly (Partial<InnerOffset> | Error)[]>(done =>
      this.#inner.committed(partitions, ANSWER_WITHIN_MS, done),
    );
    const failed = offsets.find(offset => offset instanceof Error);
    if (failed !== undefined) throw failed;
    return offsets as readonly Partial<InnerOffset>[];
  }

  async inspect({ topic, partition }: TopicPartition): Promise<PartitionState> {
    const [described, log, [committed]] = await Promise.all([
      this.describe([topic]),
      called<{ lowOffset: number; highOffset: number }>(done =>
        this.#inner.queryWatermarkOffsets(topic, partition, ANSWER_WITHIN_MS, done as never),
      ),
      this.committed([{ topic, partition }]),
    ]);
    return {
      // The promise API does not show it.
      clusterId: undefined,
      topicId: described.topicId?.base64 ?? described.topicId?.base64str,
      partitions: described.partitions.length,
      earliest: BigInt(log.lowOffset),
      end: BigInt(log.highOffset),
      committed:
        committed?.offset === undefined
          ? undefined
          : { offset: BigInt(committed.offset), metadata: committed.metadata ?? null },
    };
  }

  async disconnect(): Promise<void> {
    await this.#admin?.then(admin => admin.disconnect()).catch(() => undefined);
  }
}

async function connected(admin: ConfluentAdminLike): Promise<ConfluentAdminLike> {
  await admin.connect();
  return admin;
}
