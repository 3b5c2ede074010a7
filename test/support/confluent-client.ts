import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { CONFLUENT_FOLDER } from '../../scripts/kafka/confluent.ts';
import type { ConfluentLike } from '../../src/sources/kafka/index.ts';

/** Why the client cannot be had here, in words that help; undefined when it can. */
export function confluentMissing(): string | undefined {
  return existsSync(CONFLUENT_FOLDER) ? undefined : 'confluent is not built: node scripts/kafka/confluent.ts';
}

/** A confluent client that says nothing on its own and reconnects fast. */
export function testConfluent(broker: string, user?: { name: string; password: string }): ConfluentLike {
  const { KafkaJS } = createRequire(`${CONFLUENT_FOLDER}/`)('@confluentinc/kafka-javascript');
  return new KafkaJS.Kafka({
    'bootstrap.servers': broker,
    'client.id': 'test',
    log_level: 0,
    'reconnect.backoff.ms': 50,
    'reconnect.backoff.max.ms': 1_000,
    ...(user === undefined
      ? {}
      : {
          'security.protocol': 'sasl_plaintext',
          'sasl.mechanisms': 'PLAIN',
          'sasl.username': user.name,
          'sasl.password': user.password,
        }),
  });
}
