import { inject } from 'vitest';

export { type KafkaOptions, type KafkaServer, startKafka } from './kafka-server.ts';

/** `host:port` of the run's shared broker. Topics and groups need names of their own: test files run side by side. */
export function brokers(): string {
  const broker = inject('services').NEVERTWICE_TEST_KAFKA;
  if (broker === undefined) throw new Error('no Kafka: run this file through vitest with its config');
  return broker;
}
