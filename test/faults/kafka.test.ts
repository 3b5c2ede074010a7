import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Consumer, createConsumer } from '../../src/index.ts';
import { kafkaSource } from '../../src/sources/kafka/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { KILLS, STORM_MS, timeLimit } from '../support/counts.ts';
import { availableKafkaClients, forEachKafkaClient } from '../support/each-kafka-client.ts';
import { brokers, startKafka } from '../support/kafka.ts';
import type { TestClient } from '../support/kafka-clients.ts';
import { freshTopic, type TestTopic } from '../support/kafka-topics.ts';
import { type FreshDatabase, freshDatabase, startPostgres } from '../support/postgres.ts';
import { SEED, seeded } from '../support/random.ts';
import { until } from '../support/until.ts';

const PARTITIONS = 4;
const ACCOUNTS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

const TABLES = `CREATE TABLE wallet (account text PRIMARY KEY, balance integer NOT NULL);
CREATE TABLE ledger (message_id text NOT NULL);
INSERT INTO wallet SELECT unnest(string_to_array('${ACCOUNTS.join(',')}', ',')), 0`;

/** Sends numbered payments and keeps the books: what the wallets must hold once everything was handled once. */
class Producer {
  readonly #topic: TestTopic;
  readonly #random: ReturnType<typeof seeded>;
  readonly owed = new Map(ACCOUNTS.map(account => [account, 0]));
  readonly #sent: { id: string; account: string; amount: number }[] = [];

  constructor(topic: TestTopic, seed = SEED) {
    this.#topic = topic;
    this.#random = seeded(seed);
  }

  get messages(): number {
    return this.#sent.length;
  }

  /**
   * `count` records, a tenth of them copies of earlier ones at new offsets, as from a producer that sends again. Now and then
   * all of them once more, as from an outbox relay that died between its publish and its delete.
   */
  async send(count: number): Promise<void> {
    const records = Array.from({ length: count }, () => {
      const copy = this.#sent.length > 0 && this.#random.chance(0.1);
      const payment = copy ? this.#random.pick(this.#sent) : this.#fresh();
      return {
        key: payment.account,
        value: JSON.stringify({ account: payment.account, amount: payment.amount }),
        headers: { 'message-id': payment.id },
      };
    });
    await this.#topic.send(records);
    if (this.#random.chance(0.2)) await this.#topic.send(records);
  }

  #fresh() {
    const payment = {
      id: `m${this.#sent.length}`,
      account: this.#random.pick(ACCOUNTS),
      amount: 1 + this.#random.below(500),
    };
    this.#sent.push(payment);
    this.owed.set(payment.account, this.owed.get(payment.account)! + payment.amount);
    return payment;
  }
}

async function settledUp(pool: Pool, producer: Producer): Promise<void> {
  const { rows } = await pool.query('SELECT account, balance FROM wallet ORDER BY account');
  expect(new Map(rows.map(row => [row.account, row.balance]))).toEqual(producer.owed);
  const { rows: ledger } = await pool.query(
    'SELECT count(*)::int AS n, count(DISTINCT message_id)::int AS ids FROM ledger',
  );
  expect(ledger[0]).toEqual({ n: producer.messages, ids: producer.messages });
}

const handled = (pool: Pool, count: number) => async () => {
  const { rows } = await pool.query('SELECT count(*)::int AS n FROM ledger');
  return rows[0].n >= count;
};

async function pay({ id, body }: { id: string; body: unknown }, { sql }: { sql: any }): Promise<void> {
  const { account, amount } = body as { account: string; amount: number };
  await sql`UPDATE wallet SET balance = balance + ${amount} WHERE account = ${account}`;
  await sql`INSERT INTO ledger (message_id) VALUES (${id})`;
}

const available = availableKafkaClients();
const names = available.map(({ name }) => name).join(', ');
/** The kills are divided among the clients. */
const kills = Math.ceil(KILLS / available.length);

const FAST = { sessionTimeoutMs: 6_000, heartbeatMs: 300 };

forEachKafkaClient(client => {
  describe('on the shared broker', () => {
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

  test('C62: the store is down while members come and go: no handler, no offset moves, everybody stays, then everything once', {
    timeout: 120_000,
  }, async () => {
    const server = await startPostgres();
    const topic = await freshTopic(PARTITIONS);
    const pools: Pool[] = [];
    const members: { consumer: Consumer; done: Promise<unknown> }[] = [];
    let calls = 0;
    const pool = () => {
      const made = new Pool({ connectionString: server.url, max: PARTITIONS + 1, pipeline: true });
      made.on('error', () => undefined);
      pools.push(made);
      return made;
    };
    const start = () => {
      const consumer = createConsumer({
        name: 'pay',
        store: postgresStore(pool()),
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
      return consumer;
    };
    try {
      const admin = pool();
      await admin.query(TABLES);
      const producer = new Producer(topic, SEED + 4);
      await producer.send(200);
      start();
      start();
      await until('two members work', async () => (await topic.members()) === 2, 30_000);
      await until('all is handled', handled(admin, producer.messages), 30_000);
      await until('offsets stand still', async () => {
        const before = await topic.committed();
        await new Promise(resolve => setTimeout(resolve, 300));
        return JSON.stringify(before) === JSON.stringify(await topic.committed());
      });
      await server.kill();
      await producer.send(200);
      const offsets = await topic.committed();
      const before = calls;
      // A member leaves in the outage, and its partitions go to the one that stays: newly assigned, and the store is down.
      await members[1]!.consumer.stop({ withinMs: 500 });
      await until('one member is left', async () => (await topic.members()) === 1, 30_000);
      // Three times the session: whoever did not send heartbeats would be out.
      await new Promise(resolve => setTimeout(resolve, 20_000));
      expect(await topic.members()).toBe(1);
      expect(await topic.committed()).toEqual(offsets);
      expect(calls).toBe(before);
      await server.start();
      await until('all is handled', handled(admin, producer.messages), 60_000);
      await settledUp(admin, producer);
    } finally {
      for (const { consumer, done } of members) {
        await consumer.stop({ withinMs: 500 });
        await done.catch(() => undefined);
      }
      await topic.close();
      for (const one of pools) await one.end().catch(() => undefined);
      await server.stop();
    }
  });
});

// All clients at once: what takes long is the broker.
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
