import { test } from 'vitest';
import { sourceSuite } from '../../../src/conformance/index.ts';
import { kafkaSource } from '../../../src/sources/kafka/index.ts';
import { forEachKafkaClient } from '../../support/each-kafka-client.ts';
import type { TestClient } from '../../support/kafka-clients.ts';
import { freshTopic, type TestTopic } from '../../support/kafka-topics.ts';

// Members hear of a rebalance with their next heartbeat.
const QUICK = { heartbeatMs: 300 };

forEachKafkaClient(client =>
  sourceSuite({
    test: (title, run) => test(title, { timeout: 60_000 }, run),
    name: `kafka (${client.name})`,
    boundMs: 20_000,
    capabilities: {
      retryLater: false,
      readAhead: true,
      finite: false,
      countsAttempts: 'Kafka does not count how often it hands a record over',
      redelivers: 'Kafka does not wait for anybody: what is not committed comes to the next reader',
      revokes: true,
      repeatsHeaders: true,
      nul: true,
      binary: true,
    },
    create: async () => {
      const topic = await freshTopic();
      return {
        source: kafkaSource({ client: client.make(undefined, QUICK), topics: [topic.name], groupId: topic.group }),
        async send(messages) {
          await topic.send(
            messages.map(({ id, key, headers, body }) => ({
              key: Buffer.from(key as string),
              value: Buffer.from(body as string),
              headers: headersOf([['message-id', id], ...headers]),
            })),
          );
        },
        revoke: () => visitOf(client, topic),
        close: () => topic.close(),
      };
    },
  }),
);

/** Another member, of the same client since a group has one kind of protocol, comes for a moment. */
async function visitOf(client: TestClient, topic: TestTopic): Promise<void> {
  const told = Promise.withResolvers<void>();
  const visitor = await client.make(undefined, QUICK).join(
    { groupId: topic.group, topics: [topic.name], from: 'earliest' },
    {
      assigned: () => told.resolve(),
      added: () => told.resolve(),
      revoked: async () => undefined,
      lost: () => undefined,
      fetched: () => undefined,
      failed: error => told.reject(error),
    },
  );
  await told.promise;
  await visitor.leave();
}

function headersOf(pairs: readonly (readonly [string, string | Uint8Array])[]): Record<string, Buffer | Buffer[]> {
  const headers: Record<string, Buffer | Buffer[]> = {};
  for (const [name, value] of pairs) {
    const known = headers[name];
    const bytes = Buffer.from(value as string);
    headers[name] = known === undefined ? bytes : [...(Array.isArray(known) ? known : [known]), bytes];
  }
  return headers;
}
