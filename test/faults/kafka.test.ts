import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Consumer, createConsumer } from '../../src/index.ts';
import { kafkaSource } from '../../src/sources/kafka/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { KILLS, STORM_MS, timeLimit } from '../support/counts.ts';
import { availableKafkaClients, forEachKafkaClient } from '../support/each-kafka-client.ts';
import { brokers } from '../support/kafka.ts';
import { freshTopic, type TestTopic } from '../support/kafka-topics.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { SEED, seeded } from '../support/random.ts';
import { until } from '../support/until.ts';
import { FAST, handled, PARTITIONS, Producer, pay, settledUp, TABLES } from './kafka-books.ts';

const available = availableKafkaClients();
/** The kills are divided among the clients. */
const kills = Math.ceil(KILLS / available.length);

forEachKafkaClient(client => {
  let topic: TestTopic;
  let database: FreshDatabase;
  let pool: Pool;
  const running: { consumer: Consumer; done: Promise<unknown> }[] = [];

  beforeEach(async () => {
    topic = await freshTopic(PARTITIONS);
    database = await freshDatabase();
    pool = database.pool({ max: 20, pipeline: true });
    await pool.query(TABLES);
  });
  afterEach(async () => {
    for (const { consumer, done } of running.splice(0)) {
      await consumer.stop({ withinMs: 1_000 });
      await done.catch(() => undefined);
    }
    await topic.close();
    await pool.end();
    await database.drop();
  });

  function start(url = database.url): Consumer {
    const consumers = new Pool({ connectionString: url, max: PARTITIONS + 1, pipeline: true });
    const consumer = createConsumer({
      name: 'pay',
      store: postgresStore(consumers),
      source: kafkaSource({ client: client.make(undefined, FAST), topics: [topic.name], groupId: topic.group }),
      maxBatch: 20,
      handle: pay,
    });
    const done = consumer.run().finally(() => consumers.end());
    done.catch(() => undefined);
    running.push({ consumer, done });
    return consumer;
  }

  /** A member in a process of its own. */
  async function startChild(): Promise<ChildProcess> {
    const program = fileURLToPath(new URL('kafka-child.ts', import.meta.url));
    const child = spawn(process.execPath, [program, client.name, brokers(), topic.name, topic.group, database.url], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child, 'spawn');
    return child;
  }

  /** Fails as soon as a committed offset is lower than it was before. */
  function offsetWatch() {
    const highest = Array.from({ length: PARTITIONS }, () => -1);
    return {
      async watchOffsets() {
        for (const [partition, offset] of (await topic.committed()).entries()) {
          if (offset === -1) continue;
          expect(offset).toBeGreaterThanOrEqual(highest[partition]!);
          highest[partition] = offset;
        }
      },
    };
  }

  test(`${kills} times SIGKILL to one of three members in mid-batch: nothing lost, nothing doubled, no offset goes back (seed ${SEED})`, {
    timeout: timeLimit(6_000),
  }, async () => {
    const producer = new Producer(topic);
    const random = seeded(SEED + 1);
    const children: ChildProcess[] = [];
    const { watchOffsets } = offsetWatch();
    try {
      await producer.send(200);
      children.push(...(await Promise.all([0, 1, 2].map(() => startChild()))));
      for (let kill = 0; kill < kills; kill++) {
        await producer.send(60);
        const at = random.below(3);
        const { rows } = await pool.query('SELECT count(*)::int AS n FROM ledger');
        // Somebody is at work: the next batch of somebody is open when the signal comes.
        await until('work goes on', handled(pool, Math.min(rows[0].n + 1, producer.messages)), 30_000);
        const exited = once(children[at]!, 'exit');
        children[at]!.kill('SIGKILL');
        await exited;
        await watchOffsets();
        children[at] = await startChild();
      }
      await until('all is handled', handled(pool, producer.messages), 60_000);
      await settledUp(pool, producer);
      await watchOffsets();
    } finally {
      for (const child of children) child.kill('SIGKILL');
    }
  });

  test('a zombie: a member stopped past its session wakes up when another has gone on; no offset goes back', {
    timeout: 120_000,
  }, async () => {
    const producer = new Producer(topic, SEED + 5);
    const children = await Promise.all([0, 1].map(() => startChild()));
    const { watchOffsets } = offsetWatch();
    try {
      for (let round = 0; round < 3; round++) {
        await until('both are members', async () => (await topic.members()) === 2, 30_000);
        const { rows } = await pool.query('SELECT count(*)::int AS n FROM ledger');
        await producer.send(200);
        await until('work goes on', handled(pool, rows[0].n + 1), 30_000);
        children[0]!.kill('SIGSTOP');
        await until('it is taken for dead', async () => (await topic.members()) === 1, 30_000);
        await producer.send(100);
        // What it has claimed stays locked while it sleeps; the rest is done by the other one.
        await until('the other one goes on', handled(pool, rows[0].n + 50), 30_000);
        await watchOffsets();
        children[0]!.kill('SIGCONT');
        const handledAll = handled(pool, producer.messages);
        await until(
          'all is handled',
          async () => {
            await watchOffsets();
            return handledAll();
          },
          60_000,
        );
      }
      await settledUp(pool, producer);
    } finally {
      for (const child of children) child.kill('SIGKILL');
    }
  });

  test('a storm of rebalances: members join and leave while work goes on; each effect once', {
    timeout: 90_000 + STORM_MS,
  }, async () => {
    const producer = new Producer(topic, SEED + 2);
    await producer.send(300);
    start();
    await until('work has begun', handled(pool, 1), 30_000);
    const stormUntil = performance.now() + STORM_MS;
    for (let round = 0; round < 10 || performance.now() < stormUntil; round++) {
      const guest = start();
      await producer.send(100);
      await until('the group has two', async () => (await topic.members()) >= 2, 30_000);
      await guest.stop();
    }
    await until('all is handled', handled(pool, producer.messages), 60_000);
    await settledUp(pool, producer);
  });
});
