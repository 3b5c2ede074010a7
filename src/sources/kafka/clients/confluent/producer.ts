import {
  abortFor,
  byTopic,
  closed,
  type FailureKind,
  inChunks,
  kindOf,
  ProducerFailure,
  type TopicRecords,
  TRANSACTION_TIMEOUT_MS,
  type Transaction,
  type TransactionalProducer,
} from '../../producer.ts';
import type { ConfluentConsumerLike } from './client.ts';

/** What we call on a producer of the promise API. */
export interface ConfluentProducerLike {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  transaction(): Promise<unknown>;
  sendBatch(batch: { topicMessages: TopicRecords[] }): Promise<unknown>;
  sendOffsets(offsets: {
    consumer: any;
    topics: { topic: string; partitions: { partition: number; offset: string }[] }[];
  }): Promise<void>;
  commit(): Promise<void>;
  abort(): Promise<void>;
}

/** As much as may wait in the client at once. */
export const MAX_BYTES = 4_000_000;

export function producerConfig(own: Readonly<Record<string, unknown>> | undefined, transactionalId: string): object {
  return {
    'transaction.timeout.ms': TRANSACTION_TIMEOUT_MS,
    // All records of a transaction are given at once, and nobody gives more before they are written.
    'linger.ms': 0,
    ...own,
    'transactional.id': transactionalId,
  };
}

export class ConfluentTransactions implements TransactionalProducer {
  readonly #producer: ConfluentProducerLike;
  readonly #consumer: ConfluentConsumerLike;

  constructor(producer: ConfluentProducerLike, consumer: ConfluentConsumerLike) {
    this.#producer = producer;
    this.#consumer = consumer;
  }

  /** Connecting also asks for the id, and so fences whoever had it. */
  async open(): Promise<this> {
    try {
      await this.#producer.connect();
    } catch (error) {
      await this.close();
      throw failureOf(error);
    }
    return this;
  }

  async transact({ outputs, offset: { topic, partition, offset }, produced }: Transaction): Promise<void> {
    const producer = this.#producer;
    await producer.transaction().catch(rethrow);
    try {
      for (const chunk of inChunks(outputs, MAX_BYTES))
        await producer.sendBatch({ topicMessages: byTopic(chunk, { partition: null }) });
    } catch (error) {
      return abortFor(failureOf(error), producer, failureOf);
    }
    await produced().catch(error => abortFor(error, producer, failureOf));
    try {
      // With the consumer comes who it is in the group, as of now.
      await producer.sendOffsets({
        consumer: this.#consumer,
        topics: [{ topic, partitions: [{ partition, offset: String(offset) }] }],
      });
    } catch (error) {
      return abortFor(failureOf(error), producer, failureOf);
    }
    await producer.commit().catch(rethrow);
  }

  close(): Promise<void> {
    return closed(this.#producer.disconnect());
  }
}

/** librdkafka's own numbers are negative; the broker's are positive. */
const OWN: ReadonlyMap<unknown, FailureKind> = new Map<unknown, FailureKind>([
  [-144, 'fenced'],
  // The producer is done for, and of a transactional one that means that it was fenced.
  [-150, 'fenced'],
  [-190, 'unwritable'], // no such partition
  [-169, 'refused'], // authentication failed
]);

export function failureOf(error: unknown): ProducerFailure {
  if (error instanceof ProducerFailure) return error;
  const { code } = (error ?? {}) as { code?: unknown };
  return new ProducerFailure(OWN.get(code) ?? kindOf(code), error);
}

function rethrow(error: unknown): never {
  throw failureOf(error);
}
