import type { KafkaClient } from '../client.ts';
import type { KafkaJsLike } from './kafkajs/client.ts';
import { KafkaJsMember } from './kafkajs/member.ts';
import { KafkaJsTransactions, producerConfig } from './kafkajs/producer.ts';
import { KafkaJsPublisher, publisherConfig } from './kafkajs/publisher.ts';

export type { KafkaJsLike } from './kafkajs/client.ts';
export type { KafkaJsProducerLike } from './kafkajs/producer.ts';

export interface KafkaJsOptions {
  /** For `kafka.consumer(…)`: session timeout, fetch sizes, rack and so on. `groupId` is the source's to set. */
  readonly consumer?: Readonly<Record<string, unknown>>;
  /**
   * For `kafka.producer(…)`, in transactions and for relays: partitioner, metadata, transaction timeout (default 30 s) and so on. The
   * transactional id, `maxInFlightRequests` and the number of retries are set for you.
   */
  readonly producer?: Readonly<Record<string, unknown>>;
}

/**
 * kafkajs 2, as most people have it: `kafkajs(new Kafka({ brokers }))`.
 *
 * It has no hook that is called before partitions are taken away, so lanes end when the client says that the group
 * rebalances; what was in work by then is committed or rolled back in the store alone. It stops for good on an error that
 * it takes for final; then a new member is made in its place.
 */
export function kafkajs(kafka: KafkaJsLike, options: KafkaJsOptions = {}): KafkaClient {
  return {
    name: 'kafkajs',
    async join(joining, events) {
      const member = new KafkaJsMember(kafka, options.consumer ?? {}, joining, events);
      await member.start();
      return member;
    },
    producer(producing) {
      const producer = kafka.producer(producerConfig(options.producer, producing.transactionalId));
      return new KafkaJsTransactions(producer, producing).open();
    },
    publisher({ transactionalId }) {
      const config =
        transactionalId === undefined
          ? publisherConfig(options.producer)
          : producerConfig(options.producer, transactionalId);
      return new KafkaJsPublisher(kafka.producer(config), transactionalId !== undefined).open();
    },
  };
}
