import type { KafkaClient } from '../client.ts';
import type { ConfluentLike } from './confluent/client.ts';
import { ConfluentMember } from './confluent/member.ts';
import { ConfluentTransactions, producerConfig } from './confluent/producer.ts';
import { ConfluentPublisher, publisherConfig } from './confluent/publisher.ts';

export type {
  ConfluentAdminLike,
  ConfluentConsumerLike,
  ConfluentLike,
  ConfluentTopic,
  ConfluentUuid,
} from './confluent/client.ts';
export type { ConfluentProducerLike } from './confluent/producer.ts';

export interface ConfluentOptions {
  /**
   * For `kafka.consumer(…)`: librdkafka's settings, or a `kafkaJS` block. Session timeout, assignment strategy,
   * `group.protocol`, fetch sizes, rack and so on. The group, commits, rebalances and offset resets are the source's to set.
   * It also sets `isolation.level`, `queued.min.messages`, `fetch.queue.backoff.ms` and `fetch.wait.max.ms`, unless these
   * very names are given here; on `new Kafka(…)` or in a `kafkaJS` block they count for nothing.
   */
  readonly consumer?: Readonly<Record<string, unknown>>;
  /** For `kafka.producer(…)`, in transactions and for relays: librdkafka's settings. The transactional id is set for you. */
  readonly producer?: Readonly<Record<string, unknown>>;
}

/**
 * @confluentinc/kafka-javascript 1.10, by its promise API: `confluent(new KafkaJS.Kafka({ 'bootstrap.servers': … }))`.
 *
 * A rebalance waits for what is open in the partitions that go: it is finished and committed before another member gets
 * them. Eager and cooperative assignment and the protocol of KIP-848 (`group.protocol: 'consumer'`). Waits for no handler.
 */
export function confluent(kafka: ConfluentLike, options: ConfluentOptions = {}): KafkaClient {
  return {
    name: 'confluent',
    // A pause throws away what librdkafka holds of the partition, and it is fetched again: with 2,000 records a third slower.
    maxBuffered: 10_000,
    async join(joining, events) {
      const member = new ConfluentMember(kafka, options.consumer ?? {}, joining, events);
      await member.start();
      return member;
    },
    producer({ transactionalId, member }) {
      const producer = kafka.producer(producerConfig(options.producer, transactionalId));
      return new ConfluentTransactions(producer, (member as ConfluentMember).consumer).open();
    },
    publisher({ transactionalId }) {
      const own = options.producer;
      const config = transactionalId === undefined ? publisherConfig(own) : producerConfig(own, transactionalId);
      return new ConfluentPublisher(kafka.producer(config), own, transactionalId !== undefined).open();
    },
  };
}
