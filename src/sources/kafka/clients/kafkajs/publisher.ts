import {
  abortFor,
  afterTheLast,
  byTopic,
  CONCURRENT_TRANSACTIONS,
  closed,
  inChunks,
  type KafkaPublisher,
  type ProducedRecord,
} from '../../producer.ts';
import { assertWritten, failureOf, type KafkaJsProducerLike, MAX_BYTES, numberOf } from './producer.ts';

const ALL_REPLICAS = -1;

/** The settings of a producer without transactions, with which nothing is written twice or out of order by its own retries. */
export function publisherConfig(own: Readonly<Record<string, unknown>> | undefined): object {
  return { ...own, transactionalId: undefined, idempotent: true, maxInFlightRequests: 1 };
}

export class KafkaJsPublisher implements KafkaPublisher {
  readonly #producer: KafkaJsProducerLike;
  readonly #transactional: boolean;

  constructor(producer: KafkaJsProducerLike, transactional: boolean) {
    this.#producer = producer;
    this.#transactional = transactional;
  }

  async open(): Promise<this> {
    try {
      await this.#producer.connect();
    } catch (error) {
      await this.close();
      throw failureOf(error);
    }
    return this;
  }

  async publish(records: readonly ProducedRecord[]): Promise<void> {
    if (this.#transactional) return this.#inTransaction(records);
    try {
      for (const chunk of inChunks(records, MAX_BYTES)) {
        const batch = { topicMessages: byTopic(chunk, {}), acks: ALL_REPLICAS };
        assertWritten(chunk, await this.#producer.sendBatch(batch));
      }
    } catch (error) {
      throw failureOf(error);
    }
  }

  async #inTransaction(records: readonly ProducedRecord[]): Promise<void> {
    const transaction = await this.#producer.transaction().catch(error => {
      throw failureOf(error);
    });
    try {
      for (const chunk of inChunks(records, MAX_BYTES)) {
        const batch = { topicMessages: byTopic(chunk, {}) };
        const send = () => transaction.sendBatch(batch);
        assertWritten(chunk, await afterTheLast(send, error => numberOf(error) === CONCURRENT_TRANSACTIONS));
      }
    } catch (error) {
      return abortFor(failureOf(error), transaction, failureOf);
    }
    await transaction.commit().catch(error => {
      throw failureOf(error);
    });
  }

  close(): Promise<void> {
    return closed(this.#producer.disconnect());
  }
}
