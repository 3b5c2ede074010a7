import { test } from 'vitest';
import { sourceSuite } from '../../../src/conformance/index.ts';
import { kafkajs, kafkaSource } from '../../../src/sources/kafka/index.ts';
import { freshTopic, testKafka } from '../../support/kafka-topics.ts';

sourceSuite({
  test: (title, run) => test(title, { timeout: 60_000 }, run),
  name: 'kafka (kafkajs)',
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
    const kafka = testKafka();
    return {
      source: kafkaSource({ client: kafkajs(kafka), topics: [topic.name], groupId: topic.group }),
      async send(messages) {
        await topic.send(
          messages.map(({ id, key, headers, body }) => ({
            key: Buffer.from(key as string),
            value: Buffer.from(body as string),
            headers: headersOf([['message-id', id], ...headers]),
          })),
        );
      },
      async revoke() {
        const other = kafka.consumer({ groupId: topic.group });
        await other.connect();
        await other.subscribe({ topics: [topic.name] });
        const joined = Promise.withResolvers<void>();
        other.on(other.events.GROUP_JOIN, () => joined.resolve());
        await other.run({ autoCommit: false, eachMessage: async () => undefined });
        await joined.promise;
        await other.disconnect();
      },
      close: () => topic.close(),
    };
  },
});

function headersOf(pairs: readonly (readonly [string, string | Uint8Array])[]): Record<string, Buffer | Buffer[]> {
  const headers: Record<string, Buffer | Buffer[]> = {};
  for (const [name, value] of pairs) {
    const known = headers[name];
    const bytes = Buffer.from(value as string);
    headers[name] = known === undefined ? bytes : [...(Array.isArray(known) ? known : [known]), bytes];
  }
  return headers;
}
