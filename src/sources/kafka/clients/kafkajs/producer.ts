import { laneIdOf } from '../../client.ts';
import {
  abortFor,
  afterTheLast,
  byTopic,
  CONCURRENT_TRANSACTIONS,
  closed,
  inChunks,
  kindOf,
  type ProducedRecord,
  ProducerFailure,
  type ProducerOptions,
  type TopicRecords,
  TRANSACTION_TIMEOUT_MS,
  type Transaction,
  type TransactionalProducer,
} from '../../producer.ts';

/** What we call on a producer of kafkajs 2. */
export interface KafkaJsProducerLike {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  transaction(): Promise<KafkaJsTransactionLike>;
  sendBatch(batch: {
    topicMessages: TopicRecords[];
    acks: number;
  }): Promise<readonly { topicName: string; partition: number }[]>;
}

export interface KafkaJsTransactionLike {
  sendBatch(batch: { topicMessages: TopicRecords[] }): Promise<readonly { topicName: string; partition: number }[]>;
  sendOffsets(offsets: {
    consumerGroupId: string;
    topics: { topic: string; partitions: { partition: number; offset: string }[] }[];
  }): Promise<void>;
  commit(): Promise<void>;
  abort(): Promise<void>;
}

/** It puts all records for one partition into one batch, of which brokers take a megabyte at most unless told otherwise. */
export const MAX_BYTES = 500_000;

/** The settings that make a producer of theirs one that its transactions can rely on. */
export function producerConfig(own: Readonly<Record<string, unknown>> | undefined, transactionalId: string): object {
  return {
    transactionTimeout: TRANSACTION_TIMEOUT_MS,
    ...own,
    transactionalId,
    maxInFlightRequests: 1,
    // What it sends in a transaction is numbered all the same; this would number what is sent outside of one.
    idempotent: false,
    // When it tries again it also chooses the partition again, and a record whose answer was lost is then there twice, in
    // two partitions, where no number tells. The transaction is aborted instead.
    retry: { ...(own?.retry as object | undefined), retries: 0 },
  };
}

export class KafkaJsTransactions implements TransactionalProducer {
  readonly #producer: KafkaJsProducerLike;
  readonly #groupId: string;
  #next: KafkaJsTransactionLike | undefined;

  constructor(producer: KafkaJsProducerLike, { groupId }: ProducerOptions) {
    this.#producer = producer;
    this.#groupId = groupId;
  }

  async open(): Promise<this> {
    try {
      await this.#producer.connect();
      // It asks for its id, and so fences whoever had it, when its first transaction begins; which the broker learns of later.
      this.#next = await this.#producer.transaction();
    } catch (error) {
      await this.close();
      throw failureOf(error);
    }
    return this;
  }

  async transact({ outputs, offset: { topic, partition, offset }, produced }: Transaction): Promise<void> {
    const transaction = this.#next ?? (await this.#producer.transaction().catch(rethrow));
    this.#next = undefined;
    try {
      // First the offsets: this is where the broker may say that it is not done with the last transaction, and then nothing
      // was sent that would have to be sent again.
      await afterTheLast(
        () =>
          transaction.sendOffsets({
            consumerGroupId: this.#groupId,
            topics: [{ topic, partitions: [{ partition, offset: String(offset) }] }],
          }),
        error => numberOf(error) === CONCURRENT_TRANSACTIONS,
      );
      for (const chunk of inChunks(outputs, MAX_BYTES)) {
        assertWritten(chunk, await transaction.sendBatch({ topicMessages: byTopic(chunk, {}) }));
      }
    } catch (error) {
      return abortFor(failureOf(error), transaction, failureOf);
    }
    await produced().catch(error => abortFor(error, transaction, failureOf));
    await transaction.commit().catch(rethrow);
  }

  close(): Promise<void> {
    return closed(this.#producer.disconnect());
  }
}

/** It drops records for a partition that does not exist, and says nothing. */
export function assertWritten(
  records: readonly ProducedRecord[],
  answers: readonly { topicName: string; partition: number }[],
): void {
  const written = new Set(answers.map(({ topicName, partition }) => laneIdOf({ topic: topicName, partition })));
  for (const { topic, partition } of records) {
    if (partition === undefined || written.has(laneIdOf({ topic, partition }))) continue;
    throw new ProducerFailure('unwritable', new Error(`the topic ${topic} has no partition ${partition}`));
  }
}

/** It wraps the broker's word when it has given up. */
export function numberOf(error: unknown): unknown {
  for (let e = error as { code?: unknown; cause?: unknown } | undefined, depth = 0; e && depth < 5; depth++) {
    if (typeof e.code === 'number') return e.code;
    e = e.cause as typeof e;
  }
  return undefined;
}

export function failureOf(error: unknown): ProducerFailure {
  if (error instanceof ProducerFailure) return error;
  const { name } = (error ?? {}) as { name?: unknown };
  return new ProducerFailure(name === 'KafkaJSSASLAuthenticationError' ? 'refused' : kindOf(numberOf(error)), error);
}

function rethrow(error: unknown): never {
  throw failureOf(error);
}
