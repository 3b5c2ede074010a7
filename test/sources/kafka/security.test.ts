import { inspect } from 'node:util';
import { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } from 'kafkajs';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createConsumer } from '../../../src/index.ts';
import { kafkaSource } from '../../../src/sources/kafka/index.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { forEachKafkaClient } from '../../support/each-kafka-client.ts';
import { type KafkaServer, startKafka } from '../../support/kafka.ts';
import { testKafka } from '../../support/kafka-client.ts';
import { freshTopic, type TestTopic } from '../../support/kafka-topics.ts';
import { until } from '../../support/until.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

const READER = { name: 'reader', password: 'reader-5ecret-word' };
const STRANGER = { name: 'stranger', password: 'stranger-5ecret-word' };

let server: KafkaServer;
let topic: TestTopic;

beforeAll(async () => {
  server = await startKafka({ users: { [READER.name]: READER.password, [STRANGER.name]: STRANGER.password } });
  topic = await freshTopic(1, server.brokers);
  await topic.send([{ value: '{}', headers: { 'message-id': 'm1' } }]);
  const admin = testKafka('acl', server.brokers).admin();
  await admin.connect();
  const granted = { principal: `User:${READER.name}`, host: '*', permissionType: AclPermissionTypes.ALLOW };
  await admin.createAcls({
    acl: [
      { resourceType: AclResourceTypes.TOPIC, resourceName: topic.name, operation: AclOperationTypes.READ },
      { resourceType: AclResourceTypes.TOPIC, resourceName: topic.name, operation: AclOperationTypes.DESCRIBE },
      { resourceType: AclResourceTypes.GROUP, resourceName: topic.group, operation: AclOperationTypes.READ },
    ].map(acl => ({ ...acl, ...granted, resourcePatternType: ResourcePatternTypes.PREFIXED })),
  });
  await admin.disconnect();
});
afterAll(async () => {
  await topic?.close();
  await server?.stop();
});

forEachKafkaClient(client => {
  const start = (user: { name: string; password: string }) => {
    const consumer = createConsumer({
      name: 'pay',
      store: sqliteStore(':memory:'),
      source: kafkaSource({
        client: client.make(server.guarded, { user }),
        topics: [topic.name],
        groupId: `${topic.group}-${client.name}`,
      }),
      handle: (_, { sql }) => sql`SELECT 1`,
    });
    return { consumer, done: consumer.run() };
  };

  test('credentials pass through to the client, and it reads', async () => {
    const { consumer, done } = start(READER);
    done.catch(() => undefined);
    await Promise.race([done, until('it is handled', () => consumer.summary.processed === 1, 30_000)]);
    await consumer.stop();
    await done;
  });

  test.each([
    ['a wrong password', { ...READER, password: 'wr0ng-5ecret-word' }],
    ['rights that are missing', STRANGER],
  ])('%s: run rejects with NT_CONFIG, and no password is in the error', async (_, user) => {
    const error: unknown = await start(user).done.then(
      () => undefined,
      failure => failure,
    );
    expect(error).toMatchObject({ code: 'NT_CONFIG' });
    // Everything that a logger would print, causes and hidden fields included.
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('5ecret');
    expect(String((error as Error).message)).not.toContain('\n');
  });
});
