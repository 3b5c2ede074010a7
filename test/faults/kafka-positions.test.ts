import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Pool } from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { KILLS, timeLimit } from '../support/counts.ts';
import { availableKafkaClients, forEachKafkaClient } from '../support/each-kafka-client.ts';
import { brokers } from '../support/kafka.ts';
import { freshTopic, type TestTopic } from '../support/kafka-topics.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { SEED, seeded } from '../support/random.ts';
import { until } from '../support/until.ts';

const PARTITIONS = 4;
const kills = Math.ceil(KILLS / 2 / availableKafkaClients().length);

// One row a lane instead of one a message: what a crash, a rebalance and a zombie leave open comes again, and what is
// committed does not. The records have no copies here, since a copy has a position of its own.
forEachKafkaClient(client => {
  let topic: TestTopic;
  let database: FreshDatabase;
  let pool: Pool;
  let children: ChildProcess[] = [];
  let sent = 0;

  beforeEach(async () => {
    topic = await freshTopic(PARTITIONS);
    database = await freshDatabase();
    pool = database.pool({ max: 5 });
    await pool.query(`CREATE TABLE wallet (account text PRIMARY KEY, balance integer NOT NULL);
      INSERT INTO wallet VALUES ('a', 0);
      CREATE TABLE ledger (message_id text NOT NULL)`);
    sent = 0;
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
    await topic.close();
    await pool.end();
    await database.drop();
  });

  async function startChild(): Promise<ChildProcess> {
    const program = fileURLToPath(new URL('kafka-child.ts', import.meta.url));
    const args = [program, client.name, brokers(), topic.name, topic.group, database.url, 'position'];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child, 'spawn');
    return child;
  }

  async function send(count: number): Promise<void> {
    await topic.send(
      Array.from({ length: count }, (_, i) => ({
        partition: i % PARTITIONS,
        value: JSON.stringify({ account: 'a', amount: 5 }),
        headers: { 'message-id': `m${sent + i}` },
      })),
    );
    sent += count;
  }

  const count = async () => (await pool.query('SELECT count(*)::int AS n FROM ledger')).rows[0].n as number;
  const atLeast = (n: number) => async () => (await count()) >= n;

  /** By records in the log: a producer's own resend is a record of its own. */
  async function allOnce(): Promise<void> {
    const total = (await topic.ends()).reduce((sum, end) => sum + end, 0);
    await until('all is handled', atLeast(total), 60_000);
    expect(await count()).toBe(total);
    expect((await pool.query(`SELECT balance FROM wallet`)).rows).toEqual([{ balance: 5 * total }]);
    const lanes = await pool.query('SELECT sum(position)::int AS sum FROM nevertwice.lanes');
    expect(lanes.rows).toEqual([{ sum: total }]);
    expect((await pool.query('SELECT FROM nevertwice.inbox')).rowCount).toBe(0);
  }

  test(`by position: ${kills} times SIGKILL to one of two members in mid-batch, each record once (seed ${SEED})`, {
    timeout: timeLimit(8_000),
  }, async () => {
    const random = seeded(SEED + 7);
    await send(100);
    children = await Promise.all([0, 1].map(startChild));
    for (let kill = 0; kill < kills; kill++) {
      await send(60);
      const before = await count();
      await until('work goes on', atLeast(Math.min(before + 1, sent)), 30_000);
      const at = random.below(2);
      const exited = once(children[at]!, 'exit');
      children[at]!.kill('SIGKILL');
      await exited;
      children[at] = await startChild();
    }
    await allOnce();
  });

  test('by position: a zombie that sleeps past its session, in a batch, commits nothing of it when it wakes up', {
    timeout: 120_000,
  }, async () => {
    children = await Promise.all([0, 1].map(startChild));
    for (let round = 0; round < 2; round++) {
      await until('both are members', async () => (await topic.members()) === 2, 30_000);
      const before = await count();
      await send(200);
      await until('work goes on', atLeast(before + 1), 30_000);
      children[0]!.kill('SIGSTOP');
      await until('it is taken for dead', async () => (await topic.members()) === 1, 30_000);
      await send(100);
      // What the sleeper's open transaction holds is the one wallet row; it ends by the server's idle limit or wakes up.
      children[0]!.kill('SIGCONT');
      await allOnce();
    }
  });
});
