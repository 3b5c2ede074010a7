import type { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Consumer, createConsumer } from '../../src/index.ts';
import { memoryBroker } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { endsWithin, until } from '../support/until.ts';

/** How the server ends the session of a handler that is at work, and what that counts as. */
const ends = [
  {
    // The handler overran a limit of the session: its own failure, and the next try may do better.
    by: 'idle_in_transaction_session_timeout',
    options: '-c idle_in_transaction_session_timeout=100',
    kill: async () => undefined,
    failed: 1,
  },
  {
    by: 'pg_terminate_backend',
    options: '',
    kill: (admin: Pool, pid: number) => admin.query('SELECT pg_terminate_backend($1)', [pid]),
    failed: 0,
  },
];
const styles = ['writes again', 'returns'] as const;
const cases = ends.flatMap(end => styles.flatMap(then => [true, false].map(pipeline => ({ ...end, then, pipeline }))));

// The process is this one: an error event that nobody listens to would end it, which vitest reports as a failed run.
describe.each(cases)('C24: $by under a handler that then $then, pipeline $pipeline', each => {
  let database: FreshDatabase;
  let consumer: Consumer;
  let running: Promise<unknown>;

  beforeEach(async () => {
    database = await freshDatabase();
  });
  afterEach(async () => {
    await consumer.stop({ withinMs: 0 });
    await running;
    await database.drop();
  });

  test('nothing is committed, the client is not used again, and the redelivery makes the balance right', async () => {
    const pool = database.pool({ pipeline: each.pipeline, max: 3, options: each.options });
    const admin = database.pool();
    // Each row says by itself which session has written it.
    await admin.query(`CREATE TABLE credit (cents int NOT NULL, pid int NOT NULL DEFAULT pg_backend_pid());
      CREATE TABLE note (pid int NOT NULL DEFAULT pg_backend_pid())`);
    const pids: number[] = [];
    const errors: unknown[] = [];
    const sessionIsGone = async (pid: number) =>
      (await admin.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [pid])).rows.length === 0;

    const broker = memoryBroker({ partitions: 1 });
    consumer = createConsumer({
      name: 'pay',
      store: postgresStore(pool),
      source: broker.source(),
      async handle(_, { tx, sql }) {
        const [row] = await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`;
        pids.push(row!.pid);
        await tx.query('INSERT INTO credit (cents) VALUES (500)');
        if (pids.length === 1) {
          await each.kill(admin, row!.pid);
          await until('the session is gone', () => sessionIsGone(row!.pid));
          if (each.then === 'returns') return;
        }
        await tx.query('INSERT INTO note DEFAULT VALUES').catch(error => {
          errors.push(error);
          throw error;
        });
      },
    });
    broker.send({ id: 'm1', body: {} });
    running = consumer.run();
    await endsWithin(10_000, 'the message is processed', broker.drained('pay'));

    const [first, second, ...others] = pids;
    expect(others).toEqual([]);
    expect(second).not.toBe(first);
    expect((await admin.query('SELECT cents, pid FROM credit')).rows).toEqual([{ cents: 500, pid: second }]);
    expect((await admin.query('SELECT pid FROM note')).rows).toEqual([{ pid: second }]);
    expect(errors).toHaveLength(each.then === 'returns' ? 0 : 1);
    expect(consumer.summary).toEqual({
      processed: 1,
      duplicates: 0,
      conflicts: 0,
      deadLetters: 0,
      failed: each.failed,
    });
    const sessions = await admin.query('SELECT pid FROM pg_stat_activity WHERE pid = ANY ($1)', [pids]);
    expect(sessions.rows).toEqual([{ pid: second }]);
  });
});

test('C24: a handler that overruns the idle limit at every try becomes a dead letter that names 25P03', async () => {
  const database = await freshDatabase();
  const admin = database.pool();
  const pool = database.pool({ options: '-c idle_in_transaction_session_timeout=100' });
  const broker = memoryBroker({ partitions: 1 });
  const consumer = createConsumer({
    name: 'pay',
    store: postgresStore(pool),
    source: broker.source(),
    retries: { attempts: 2, deliveries: 1, minMs: 1 },
    async handle(_, { sql }) {
      const [row] = await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`;
      await until('the session is gone', async () => {
        const { rows } = await admin.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [row!.pid]);
        return rows.length === 0;
      });
    },
  });
  broker.send({ id: 'm1', body: {} });
  const running = consumer.run();
  await endsWithin(10_000, 'it is set aside', broker.drained('pay'));
  const { rows } = await admin.query('SELECT message_id, kind, reason FROM nevertwice.dead_letters');
  expect(rows).toEqual([{ message_id: 'm1', kind: 'attempts', reason: expect.stringContaining('25P03') }]);
  await consumer.stop();
  await running;
  await database.drop();
});
