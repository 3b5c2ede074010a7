import {
  abortFor,
  byTopic,
  closed,
  inChunks,
  type KafkaPublisher,
  type ProducedRecord,
  ProducerFailure,
  sizeOf,
} from '../../producer.ts';
import { type ConfluentProducerLike, failureOf, MAX_BYTES } from './producer.ts';

/** librdkafka's own limit of a message, and what it counts beside key, value and headers. */
const MAX_MESSAGE_BYTES = 1_000_000;
const MARGIN = 512;

/** The settings of a producer without transactions that stops at the first record it cannot write, instead of going on. */
export function publisherConfig(own: Readonly<Record<string, unknown>> | undefined): object {
  return {
    'linger.ms': 0,
    ...own,
    acks: -1,
    'enable.idempotence': true,
    'enable.gapless.guarantee': true,
  };
}

export class ConfluentPublisher implements KafkaPublisher {
  readonly #producer: ConfluentProducerLike;
  readonly #transactional: boolean;
  readonly #maxBytes: number;

  constructor(
    producer: ConfluentProducerLike,
    own: Readonly<Record<string, unknown>> | undefined,
    transactional: boolean,
  ) {
    this.#producer = producer;
    this.#transactional = transactional;
    this.#maxBytes = Number(own?.['message.max.bytes'] ?? MAX_MESSAGE_BYTES) - MARGIN;
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
    this.#assertSizes(records);
    const producer = this.#producer;
    try {
      if (this.#transactional) await producer.transaction();
      for (const chunk of inChunks(records, MAX_BYTES))
        await producer.sendBatch({ topicMessages: byTopic(chunk, { partition: null }) });
      if (this.#transactional) await producer.commit();
    } catch (error) {
      if (this.#transactional) return abortFor(failureOf(error), producer, failureOf);
      throw failureOf(error);
    }
  }

  /** It refuses one that is too large by itself, and writes those behind it. */
  #assertSizes(records: readonly ProducedRecord[]): void {
    const large = records.find(record => sizeOf(record) > this.#maxBytes);
    if (large === undefined) return;
    throw new ProducerFailure('unwritable', new Error(`a record of ${sizeOf(large)} bytes is above message.max.bytes`));
  }

  close(): Promise<void> {
    return closed(this.#producer.disconnect());
  }
}
