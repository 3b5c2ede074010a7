import { randomUUID } from 'node:crypto';
import { BATCH } from '../../sql/load.ts';
import { COMMIT_EVERY_MS, MAX_WAIT_MS, PARTITIONS, type Reader } from '../reader.ts';

/** What is called here of `new KafkaJS.Kafka(…)`; its types come with the package, which is no dependency. */
export interface ConfluentByHand {
  consumer(config: Readonly<Record<string, unknown>>): {
    connect(): Promise<void>;
    subscribe(options: { topics: string[] }): Promise<void>;
    run(options: {
      partitionsConsumedConcurrently: number;
      eachMessage?(payload: { message: ConfluentMessage }): Promise<void>;
      eachBatch?(payload: { batch: { partition: number; messages: readonly ConfluentMessage[] } }): Promise<void>;
    }): Promise<void>;
    disconnect(): Promise<void>;
  };
}

export interface ConfluentMessage {
  readonly value: Buffer;
  readonly headers: Readonly<Record<string, unknown>>;
}

/**
 * The API that looks like kafkajs. A batch is put together in the client, of 32 unless told otherwise; its offset is
 * stored when the work has ended, and what is stored is committed by the library in the background.
 */
export function confluentReader(kafka: ConfluentByHand): Reader<ConfluentMessage> {
  return {
    idOf: ({ headers }) => String(headers['message-id']),
    valueOf: ({ value }) => String(value),
    async read(topic, work) {
      const consumer = kafka.consumer({
        'group.id': randomUUID(),
        'auto.offset.reset': 'earliest',
        'enable.auto.commit': true,
        'auto.commit.interval.ms': COMMIT_EVERY_MS,
        'fetch.wait.max.ms': MAX_WAIT_MS,
        'js.consumer.max.batch.size': BATCH,
      });
      await consumer.connect();
      await consumer.subscribe({ topics: [topic] });
      await consumer.run({
        partitionsConsumedConcurrently: PARTITIONS,
        ...('eachMessage' in work
          ? { eachMessage: ({ message }) => work.eachMessage(message) }
          : { eachBatch: ({ batch }) => work.eachBatch(batch.partition, batch.messages) }),
      });
      return () => consumer.disconnect();
    },
  };
}
