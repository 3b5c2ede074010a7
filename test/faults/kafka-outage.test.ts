import { Pool } from 'pg';
import { expect, test } from 'vitest';
import { type Consumer, createConsumer } from '../../src/index.ts';
import { kafkaSource } from '../../src/sources/kafka/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { availableKafkaClients } from '../support/each-kafka-client.ts';
import { startKafka } from '../support/kafka.ts';
import type { TestClient } from '../support/kafka-clients.ts';
import { freshTopic } from '../support/kafka-topics.ts';
import { freshDatabase, startPostgres } from '../support/postgres.ts';
import { SEED } from '../support/random.ts';
import { until } from '../support/until.ts';
import { FAST, handled, PARTITIONS, Producer, pay, settledUp, TABLES } from './kafka-books.ts';

// All clients at once: what takes long is the outage.
const available = availableKafkaClients();
const names = available.map(({ name }) => name).join(', ');
/** Three times the session: whoever did not send heartbeats would be out. */
const OUTAGE_MS = 20_000;

test(`C62: the store is down while members come and go: no handler, no offset moves, everybody stays, then everything once (${names})`, {
  timeout: 180_000,
}, async () => {
  const server = await startPostgres();
  const pools: Pool[] = [];
  const pool = (connectionString: string) => {
    const made = new Pool({ connectionString, max: PARTITIONS + 1, pipeline: true });
    made.on('error', () => undefined);
    pools.push(made);
    return made;
  };

  /** Two members with one client, on a database of their own. */
  async function open(client: TestClient) {
    const root = pool(server.url);
    await root.query(`CREATE DATABASE ${client.name}`);
    const url = Object.assign(new URL(server.url), { pathname: `/${client.name}` }).href;
    const admin = pool(url);
    await admin.query(TABLES);
    const topic = await freshTopic(PARTITIONS);
    const producer = new Producer(topic, SEED + 4);
    const members: { consumer: Consumer; done: Promise<unknown> }[] = [];
    let calls = 0;
    const start = () => {
      const consumer = createConsumer({
        name: 'pay',
        store: postgresStore(pool(url)),
        source: kafkaSource({ client: client.make(undefined, FAST), topics: [topic.name], groupId: topic.group }),
        maxBatch: 20,
        handle: (message, context) => {
          calls++;
          return pay(message, context);
        },
      });
      const done = consumer.run();
      done.catch(() => undefined);
      members.push({ consumer, done });
    };
    await producer.send(200);
    start();
    start();
    await until(`two members work (${client.name})`, async () => (await topic.members()) === 2, 60_000);
    await until(`all is handled (${client.name})`, handled(admin, producer.messages), 60_000);
    await until('offsets stand still', async () => {
      const before = await topic.committed();
      await new Promise(resolve => setTimeout(resolve, 300));
      return JSON.stringify(before) === JSON.stringify(await topic.committed());
    });
    return {
      client,
      topic,
      producer,
      admin,
      members,
      get calls() {
        return calls;
      },
      async close() {
        for (const { consumer, done } of members) {
          await consumer.stop({ withinMs: 500 });
          await done.catch(() => undefined);
        }
        await topic.close();
      },
    };
  }

  const shops: Awaited<ReturnType<typeof open>>[] = [];
  try {
    for (const client of available) shops.push(await open(client));
    await server.kill();
    const before = await Promise.all(
      shops.map(async ({ topic, producer, members, client, calls }) => {
        await producer.send(200);
        const offsets = await topic.committed();
        // A member leaves in the outage, and its partitions go to the one that stays: newly assigned, and the store is down.
        await members[1]!.consumer.stop({ withinMs: 500 });
        await until(`one member is left (${client.name})`, async () => (await topic.members()) === 1, 60_000);
        return { offsets, calls };
      }),
    );
    await new Promise(resolve => setTimeout(resolve, OUTAGE_MS));
    for (const [i, shop] of shops.entries()) {
      expect(await shop.topic.members()).toBe(1);
      expect(await shop.topic.committed()).toEqual(before[i]!.offsets);
      expect(shop.calls).toBe(before[i]!.calls);
    }
    await server.start();
    await Promise.all(
      shops.map(({ client, admin, producer }) =>
        until(`all is handled (${client.name})`, handled(admin, producer.messages), 90_000),
      ),
    );
    for (const { admin, producer } of shops) await settledUp(admin, producer);
  } finally {
    for (const shop of shops) await shop.close();
    for (const one of pools) await one.end().catch(() => undefined);
    await server.stop();
  }
});

test(`the broker is killed and started again under load: the consumers go on by themselves (${names})`, {
  timeout: 120_000,
}, async () => {
  const server = await startKafka();
  const shops: Awaited<ReturnType<typeof open>>[] = [];
  async function open(client: TestClient) {
    const database = await freshDatabase();
    const pool = database.pool({ max: 10, pipeline: true });
    await pool.query(TABLES);
    const topic = await freshTopic(PARTITIONS, server.brokers);
    const consumer = createConsumer({
      name: 'pay',
      store: postgresStore(pool),
      source: kafkaSource({
        client: client.make(server.brokers, FAST),
        topics: [topic.name],
        groupId: topic.group,
      }),
      maxBatch: 20,
      handle: pay,
    });
    const done = consumer.run();
    done.catch(() => undefined);
    return {
      name: client.name,
      pool,
      producer: new Producer(topic, SEED + 3),
      async close() {
        await consumer.stop({ withinMs: 1_000 });
        await done.catch(() => undefined);
        await topic.close();
        await pool.end();
        await database.drop();
      },
    };
  }
  try {
    for (const client of available) shops.push(await open(client));
    await Promise.all(
      shops.map(async ({ name, pool, producer }) => {
        await producer.send(500);
        await until(`${name} has begun`, handled(pool, 50), 30_000);
      }),
    );
    for (const end of [() => server.kill(), () => server.shutdown()]) {
      await end();
      await server.start();
      await Promise.all(
        shops.map(async ({ name, pool, producer }) => {
          await producer.send(200);
          await until(`${name} has handled all`, handled(pool, producer.messages), 60_000);
        }),
      );
    }
    for (const { pool, producer } of shops) await settledUp(pool, producer);
  } finally {
    for (const shop of shops) await shop.close();
    await server.stop();
  }
});
