import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Points } from '../../src/index.ts';
import { type KafkaTransform, kafkaTransform } from '../../src/sources/kafka/index.ts';
import { KILLS, timeLimit } from '../support/counts.ts';
import { availableKafkaClients, forEachKafkaClient } from '../support/each-kafka-client.ts';
import { brokers, startKafka } from '../support/kafka.ts';
import type { TestClient } from '../support/kafka-clients.ts';
import { readCommitted } from '../support/kafka-reader.ts';
import { freshTopic, type TestTopic } from '../support/kafka-topics.ts';
import { freshDatabase } from '../support/postgres.ts';
import { endsWithin, until } from '../support/until.ts';

const PARTITIONS = 2;
const WITHIN_MS = 30_000;
const available = availableKafkaClients();
/** A kill costs seconds here, until the group has noticed, and there are three clients. */
const kills = Math.ceil(KILLS / 8 / available.length);

let input: TestTopic;
let output: TestTopic;
let sent: number;
let children: ChildProcess[] = [];
const running: { transform: KafkaTransform; done: Promise<unknown> }[] = [];

beforeEach(async () => {
  [input, output] = await Promise.all([freshTopic(PARTITIONS), freshTopic(PARTITIONS)]);
  sent = 0;
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const { transform, done } of running.splice(0)) {
    await transform.stop({ withinMs: 2_000 });
    await done.catch(() => undefined);
  }
  await Promise.all([input.close(), output.close()]);
});

async function send(count: number): Promise<void> {
  await input.send(
    Array.from({ length: count }, (_, i) => ({
      partition: (sent + i) % PARTITIONS,
      value: JSON.stringify(`m${sent + i}`),
    })),
  );
  sent += count;
}

const committed = async () => (await input.committed()).reduce((sum, offset) => sum + Math.max(offset, 0), 0);
// By what is in the log, also below: a producer's own resend is a record of its own.
const allCommitted = async () => {
  const ends = await input.ends();
  return (await input.committed()).every((offset, partition) => offset >= ends[partition]!);
};

/** For each record of the input one in the output, for whoever reads what is committed. */
async function eachOnce(from = input, to = output, at = brokers()): Promise<void> {
  // At once, and not when the broker gives up what a dead producer has left open, which takes half a minute.
  const read = (topic: TestTopic) => endsWithin(15_000, 'readers go on', readCommitted(topic, at));
  const values = async (topic: TestTopic) => (await read(topic)).map(({ value }) => value!).toSorted();
  expect(await values(to)).toEqual((await values(from)).map(value => JSON.parse(value)).toSorted());
}

function start(client: TestClient, points?: Points) {
  const transform = kafkaTransform<string>({
    client: client.make(undefined, { sessionTimeoutMs: 6_000, heartbeatMs: 300 }),
    topics: [input.name],
    groupId: input.group,
    maxBatch: 10,
    transform: ({ body }) => ({ topic: output.name, value: body }),
  });
  const done = transform.run(points === undefined ? {} : { points });
  done.catch(() => undefined);
  running.push({ transform, done });
  return { transform, done };
}

/** Stands still in its first transaction of each lane, when the outputs are written and the offsets are not sent. */
function standingStill() {
  const reached = Promise.withResolvers<string>();
  const go = Promise.withResolvers<void>();
  const points: Points = {
    reach({ step, edge, lane }) {
      if (step !== 'record' || edge !== 'before') return;
      reached.resolve(lane);
      return go.promise;
    },
  };
  return { points, reached: reached.promise, go: go.resolve };
}

forEachKafkaClient(client => {
  async function startChild(...rest: readonly string[]): Promise<ChildProcess> {
    const program = fileURLToPath(new URL('kafka-transform-child.ts', import.meta.url));
    const args = [program, client.name, brokers(), input.name, output.name, input.group, ...rest];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child, 'spawn');
    return child;
  }

  /** Resolves with the child that is the next to say that its outputs are written and not committed. */
  function produced(): Promise<ChildProcess> {
    const next = Promise.withResolvers<ChildProcess>();
    for (const child of children) child.stdout!.once('data', () => next.resolve(child));
    return endsWithin(WITHIN_MS, 'a transaction is open', next.promise);
  }

  test(`C60: ${kills} times SIGKILL in mid-transaction: the next owner of the id ends it, readers go on, each output once`, {
    timeout: timeLimit(6_000),
  }, async () => {
    await send(40);
    children = await Promise.all([0, 1].map(() => startChild()));
    for (let kill = 0; kill < kills; kill++) {
      const open = produced();
      await send(40);
      const child = await open;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
      children = [...children.filter(other => other !== child), await startChild()];
    }
    await until('all is committed', allCommitted, WITHIN_MS);
    await eachOnce();
  });

  test('C59: a rebalance after the outputs are written and before the offsets are sent: each output once', {
    timeout: 90_000,
  }, async () => {
    await send(20);
    const { points, reached, go } = standingStill();
    const first = start(client, points);
    await endsWithin(WITHIN_MS, 'outputs are written', reached);
    const second = start(client);
    await until('the other is a member too', async () => (await input.arrived()) === 2, WITHIN_MS);
    // A client that holds the rebalance back waits for the transaction; the others have lost the partition by now.
    if (client.holdsRebalances !== true) {
      await until('the other has one of the partitions', async () => (await committed()) >= 10, WITHIN_MS);
    }
    go();
    await until('all is committed', allCommitted, WITHIN_MS);
    await eachOnce();
    for (const { transform, done } of [first, second]) {
      await transform.stop();
      await done;
    }
    expect(first.transform.summary.processed + second.transform.summary.processed).toBeGreaterThanOrEqual(sent);
  });

  test('C59: a zombie that sleeps past its session in mid-transaction: another goes on; what the zombie commits when it wakes up is refused', {
    timeout: 90_000,
  }, async () => {
    await send(20);
    const zombie = await startChild();
    children = [zombie];
    await produced();
    zombie.kill('SIGSTOP');
    const heir = start(client);
    await until('the heir has done all', allCommitted, WITHIN_MS);
    await eachOnce();
    zombie.kill('SIGCONT');
    await send(20);
    await until('all is committed', allCommitted, WITHIN_MS);
    await until('both are members', async () => (await input.members()) === 2, WITHIN_MS);
    await send(20);
    await until('all is committed', allCommitted, WITHIN_MS);
    await eachOnce();
    expect(heir.transform.summary.processed).toBeGreaterThanOrEqual(20);
  });
});

// A database is not part of the transaction: what it gets stays when the transaction is aborted. Positions or an outbox keep
// both together; see docs/kafka.md.
test('C60: the window: a write to a database is NOT atomic with the Kafka transaction: killed between the two, it is doubled, and the output is not', {
  timeout: 60_000,
}, async () => {
  const database = await freshDatabase();
  const pool = database.pool({ max: 2 });
  try {
    await pool.query('CREATE TABLE seen (value text NOT NULL)');
    await send(PARTITIONS);
    const program = fileURLToPath(new URL('kafka-transform-child.ts', import.meta.url));
    const args = ['kafkajs', brokers(), input.name, output.name, input.group, database.url];
    const run = (...rest: string[]) => {
      const child = spawn(process.execPath, [program, ...args, ...rest], { stdio: ['ignore', 'pipe', 'inherit'] });
      children.push(child);
      return child;
    };
    const seen = async () => (await pool.query('SELECT value FROM seen ORDER BY value')).rows.map(({ value }) => value);
    const doomed = run('hold');
    await until('it has written all to the database', async () => (await seen()).length === sent, WITHIN_MS);
    const exited = once(doomed, 'exit');
    doomed.kill('SIGKILL');
    await exited;
    run();
    await until('all is committed', allCommitted, WITHIN_MS);
    await eachOnce();
    expect(await seen()).toEqual(['m0', 'm0', 'm1', 'm1']);
  } finally {
    for (const child of children.splice(0)) child.kill('SIGKILL');
    await pool.end();
    await database.drop();
  }
});

test('C60: two applications with one transactional id: both say so, and one of them ends instead of fencing the other for ever', {
  timeout: 90_000,
}, async () => {
  const client = available[0]!;
  const warnings: string[] = [];
  const listen = (warning: Error) => warnings.push(warning.message);
  process.on('warning', listen);
  const options = (groupId: string) => ({
    client: client.make(),
    topics: [input.name],
    groupId,
    transactionalId: `shared-${input.group}`,
    maxBatch: 1,
    transform: () => undefined,
    // The pauses between two attempts, without the time they take.
    clock: { monotonicMs: () => performance.now(), random: () => 0, sleep: async () => undefined },
  });
  const both = [input.group, `other-${input.group}`].map(group => kafkaTransform(options(group)));
  const feeding = new AbortController();
  const fed = (async () => {
    while (!feeding.signal.aborted) await send(20);
  })();
  try {
    const ends = both.map(transform =>
      transform.run().then(
        () => undefined,
        error => error,
      ),
    );
    const error = await endsWithin(60_000, 'one of them ends', Promise.race(ends));
    expect(error).toMatchObject({ code: 'NT_CONFIG' });
    expect(error.message).toContain(`shared-${input.group}/${input.name}/`);
    expect(warnings.join('\n')).toContain('another producer uses the transactional id');
  } finally {
    feeding.abort();
    await fed;
    process.off('warning', listen);
    await Promise.all(both.map(transform => transform.stop({ withinMs: 2_000 })));
  }
});

// All clients at once: what takes long is the broker.
test(`the broker is killed under load, and restarted: each output once (${available.map(({ name }) => name).join(', ')})`, {
  timeout: 120_000,
}, async () => {
  const server = await startKafka();
  const shops = await Promise.all(
    available.map(async client => {
      const [from, to] = await Promise.all([
        freshTopic(PARTITIONS, server.brokers),
        freshTopic(PARTITIONS, server.brokers),
      ]);
      const transform = kafkaTransform<string>({
        client: client.make(server.brokers, { sessionTimeoutMs: 6_000, heartbeatMs: 300 }),
        topics: [from.name],
        groupId: from.group,
        maxBatch: 5,
        transform: ({ body }) => ({ topic: to.name, value: body }),
      });
      const done = transform.run();
      done.catch(() => undefined);
      return { name: client.name, from, to, transform, done };
    }),
  );
  let count = 0;
  const feed = async (records: number) => {
    const values = Array.from({ length: records }, (_, i) => ({
      partition: i % PARTITIONS,
      value: JSON.stringify(`m${count + i}`),
    }));
    count += records;
    await Promise.all(shops.map(({ from }) => from.send(values)));
  };
  try {
    await feed(300);
    await Promise.all(
      shops.map(({ name, transform }) => until(`${name} has begun`, () => transform.summary.processed > 20, WITHIN_MS)),
    );
    await server.kill();
    await server.start();
    await feed(50);
    for (const { name, from, to } of shops) {
      const all = async () => {
        const [offsets, ends] = await Promise.all([from.committed(), from.ends()]);
        return offsets.every((offset, partition) => offset >= ends[partition]!);
      };
      await until(`${name} has done all`, all, 60_000);
      await eachOnce(from, to, server.brokers);
    }
  } finally {
    for (const { from, to, transform, done } of shops) {
      await transform.stop({ withinMs: 1_000 });
      await done.catch(() => undefined);
      await Promise.all([from.close(), to.close()]);
    }
    await server.stop();
  }
});
