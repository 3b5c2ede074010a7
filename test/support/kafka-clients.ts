import type { KafkaClient } from '../../src/sources/kafka/client.ts';
import { kafkajs } from '../../src/sources/kafka/index.ts';
import { brokers } from './kafka.ts';
import { testKafka } from './kafka-client.ts';

/** One of the clients that people have, as the tests use it: quick to reconnect and quiet. */
export interface TestClient {
  readonly name: string;
  /** A client of its own, on the shared broker unless told otherwise. */
  make(at?: string): KafkaClient;
}

export const CLIENTS: readonly TestClient[] = [
  { name: 'kafkajs', make: (at = brokers()) => kafkajs(testKafka('test', at)) },
];
