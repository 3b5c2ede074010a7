import * as platformaticKafka from '@platformatic/kafka';
import type { KafkaClient } from '../../src/sources/kafka/client.ts';
import { confluent, kafkajs, platformatic } from '../../src/sources/kafka/index.ts';
import { confluentMissing, testConfluent } from './confluent-client.ts';
import { testKafka } from './kafka-client.ts';

/** What a test may want to be other than a client's default. */
export interface ClientSettings {
  readonly sessionTimeoutMs?: number;
  readonly heartbeatMs?: number;
  /** How old the client lets its knowledge of topics and partitions become. */
  readonly metadataMaxAgeMs?: number;
  /** By SASL PLAIN, without TLS. */
  readonly user?: { readonly name: string; readonly password: string };
}

/** One of the clients that people have, as the tests use it: quick to reconnect and quiet. */
export interface TestClient {
  readonly name: string;
  /** Why it cannot be had here, in words that help; undefined when it can. */
  readonly missing?: string | undefined;
  /** A fetch from a topic that was made again is refused, however long it is by then. */
  readonly fetchesByTopicId?: boolean;
  /** A rebalance waits for what is in work in the partitions that go. */
  readonly holdsRebalances?: boolean;
  /** A client of its own, on the run's shared broker unless told otherwise. */
  make(at?: string, settings?: ClientSettings): KafkaClient;
}

// From the environment, where child processes find it too.
const shared = () => process.env.NEVERTWICE_TEST_KAFKA!;

export const CLIENTS: readonly TestClient[] = [
  {
    name: 'kafkajs',
    make: (at = shared(), { sessionTimeoutMs, heartbeatMs, metadataMaxAgeMs, user } = {}) =>
      kafkajs(testKafka('test', at, user), {
        consumer: defined({
          sessionTimeout: sessionTimeoutMs,
          heartbeatInterval: heartbeatMs,
          metadataMaxAge: metadataMaxAgeMs,
        }),
      }),
  },
  {
    name: 'platformatic',
    fetchesByTopicId: true,
    holdsRebalances: true,
    make: (at = shared(), { sessionTimeoutMs, heartbeatMs, metadataMaxAgeMs, user } = {}) =>
      platformatic(platformaticKafka, {
        clientId: 'test',
        bootstrapBrokers: [at],
        retryDelay: 100,
        ...(user === undefined
          ? {}
          : { sasl: { mechanism: 'PLAIN' as const, username: user.name, password: user.password } }),
        ...defined({
          sessionTimeout: sessionTimeoutMs,
          heartbeatInterval: heartbeatMs,
          metadataMaxAge: metadataMaxAgeMs,
        }),
      }),
  },
  {
    name: 'confluent',
    missing: confluentMissing(),
    holdsRebalances: true,
    make: (at = shared(), { sessionTimeoutMs, heartbeatMs, metadataMaxAgeMs, user } = {}) =>
      confluent(testConfluent(at, user), {
        consumer: defined({
          'session.timeout.ms': sessionTimeoutMs,
          'heartbeat.interval.ms': heartbeatMs,
          'topic.metadata.refresh.interval.ms': metadataMaxAgeMs,
        }),
      }),
  },
];

export function clientNamed(name: string): TestClient {
  const found = CLIENTS.find(client => client.name === name);
  if (found === undefined) throw new Error(`no Kafka client of the tests is called ${name}`);
  return found;
}

function defined(settings: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}
