import { randomUUID } from 'node:crypto';
import type { EachBatchPayload, Kafka, KafkaMessage } from 'kafkajs';
import { BATCH } from '../../sql/load.ts';
import { COMMIT_EVERY_MS, MAX_WAIT_MS, PARTITIONS, type Reader } from '../reader.ts';

/** A batch of kafkajs is what a fetch brought, so it is cut. */
export function kafkajsReader(kafka: Kafka): Reader<KafkaMessage> {
  return {
    idOf: ({ headers }) => String(headers!['message-id']),
    valueOf: ({ value }) => String(value),
    async read(topic, work, failed) {
      const consumer = kafka.consumer({ groupId: randomUUID(), maxWaitTimeInMs: MAX_WAIT_MS });
      // From most it recovers by itself, as from a coordinator that is still loading just after the broker has started.
      consumer.on(consumer.events.CRASH, ({ payload }) => {
        if (!payload.restart) failed(payload.error);
      });
      await consumer.connect();
      await consumer.subscribe({ topics: [topic], fromBeginning: true });
      await consumer.run({
        partitionsConsumedConcurrently: PARTITIONS,
        ...('eachMessage' in work
          ? { eachMessage: ({ message }) => work.eachMessage(message) }
          : {
              eachBatchAutoResolve: false,
              autoCommitInterval: COMMIT_EVERY_MS,
              eachBatch: payload => inParts(payload, work.eachBatch),
            }),
      });
      return () => consumer.disconnect();
    },
  };
}

async function inParts(
  { batch, resolveOffset, heartbeat, commitOffsetsIfNecessary }: EachBatchPayload,
  work: (partition: number, messages: readonly KafkaMessage[]) => Promise<void>,
): Promise<void> {
  for (let at = 0; at < batch.messages.length; at += BATCH) {
    const messages = batch.messages.slice(at, at + BATCH);
    await work(batch.partition, messages);
    resolveOffset(messages.at(-1)!.offset);
    await commitOffsetsIfNecessary();
    await heartbeat();
  }
}
