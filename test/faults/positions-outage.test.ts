import type { Pool, PoolConfig } from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { type Consumer, createConsumer } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type TestLog, testLog } from '../support/log-source.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';

const WITHIN_MS = 20_000;

let database: FreshDatabase;
let admin: Pool;
let pool: Pool;
let log: TestLog;
let consumer: Consumer;
let ended: unknown;

/** A consumer by position that has handled two records and waits for more. */
async function start(options: PoolConfig = {}): Promise<void> {
  database = await freshDatabase();
  admin = database.pool({ max: 3 });
  await admin.query(
    `CREATE TABLE wallet (id text PRIMARY KEY, cents int NOT NULL); INSERT INTO wallet VALUES ('a', 0)`,
  );
  log = testLog();
  log.append({ body: 1 }, { body: 1 });
  pool = database.pool({ pipeline: true, max: 3, ...options });
  consumer = createConsumer({
    name: 'pay',
    store: postgresStore(pool, { replyTimeoutMs: 5_000 }),
    source: log.source(),
    dedupe: 'position',
    handle: (_, { sql }) => sql`UPDATE wallet SET cents = cents + 1 WHERE id = 'a'`,
  });
  ended = undefined;
  consumer.run().catch(error => {
    ended = error;
  });
  await at(2);
}

const at = (position: number) =>
  until(
    `position ${position}`,
    async () => {
      if (ended !== undefined) throw ended;
      const { rows } = await admin.query('SELECT position FROM nevertwice.lanes').catch(() => ({ rows: [] }));
      return rows[0]?.position === String(position);
    },
    WITHIN_MS,
  );

async function goesOn(): Promise<void> {
  log.append({ body: 1 });
  await at(3);
  expect((await admin.query('SELECT cents FROM wallet')).rows).toEqual([{ cents: 3 }]);
  expect(consumer.summary).toMatchObject({ processed: 3, failed: 0, deadLetters: 0 });
}

/** Somebody holds the lane's row while the consumer takes the lane over again, and does `meanwhile`. */
async function whileLocked(meanwhile: () => Promise<unknown>): Promise<void> {
  const holder = await admin.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT FROM nevertwice.lanes FOR UPDATE');
  log.rebalance();
  await meanwhile();
  await holder.query('ROLLBACK');
  holder.release();
}

const waiting = `FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;

describe('what goes wrong while a lane is taken over is an outage, and no failure', () => {
  afterEach(async () => {
    await consumer.stop({ withinMs: 0 });
    await database.drop();
  });

  test('the server ends the session', async () => {
    await start();
    await whileLocked(async () => {
      await until('it waits', async () => (await admin.query(`SELECT ${waiting}`)).rows.length > 0, WITHIN_MS);
      await admin.query(`SELECT pg_terminate_backend(pid) ${waiting}`);
    });
    await goesOn();
  });

  test('the primary has become a replica, and connections that know the new one come back', async () => {
    await start();
    const sessions = await Promise.all([1, 2, 3].map(() => pool.connect()));
    for (const session of sessions) await session.query('SET default_transaction_read_only = on');
    for (const session of sessions) session.release();
    log.rebalance();
    await goesOn();
  });

  test('the session gives up waiting for the row', async () => {
    await start({ options: '-c lock_timeout=100' });
    await whileLocked(async () => {
      await until('it waits', async () => (await admin.query(`SELECT ${waiting}`)).rows.length > 0, WITHIN_MS);
      await until('it gave up', async () => (await admin.query(`SELECT ${waiting}`)).rows.length === 0, WITHIN_MS);
    });
    await goesOn();
  });

  test('the registration of the consumer is gone: run rejects and says so', async () => {
    await start();
    await admin.query('DELETE FROM nevertwice.lanes');
    await admin.query('DELETE FROM nevertwice.consumers');
    log.rebalance();
    await until('it ended', () => ended !== undefined, WITHIN_MS);
    expect(ended).toMatchObject({
      code: 'NT_SCHEMA',
      message: expect.stringContaining('no longer knows consumer "pay"'),
    });
  });
});

test.each([{ pipeline: true }, { pipeline: false }])(
  'a deferred trigger that fails at COMMIT has not lost the lane: the message is isolated (%o)',
  async ({ pipeline }) => {
    const fresh = await freshDatabase();
    const owner = fresh.pool({ max: 2 });
    await owner.query(`CREATE TABLE wallet (id text, cents int NOT NULL);
      CREATE FUNCTION divide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 / NEW.cents; RETURN NEW; END $$;
      CREATE CONSTRAINT TRIGGER late AFTER INSERT ON wallet DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION divide()`);
    const records = testLog();
    records.append({ body: 1 }, { body: 0 }, { body: 2 });
    const paying = createConsumer({
      name: 'pay',
      store: postgresStore(fresh.pool({ pipeline, max: 3 })),
      source: records.source(),
      dedupe: 'position',
      retries: { attempts: 2, minMs: 1, maxMs: 2 },
      handle: ({ body }, { sql }) => sql`INSERT INTO wallet VALUES ('a', ${Number(body)})`,
    });
    const done = paying.run();
    await until('all are decided', () => records.commits.at(-1) === 3n, WITHIN_MS);
    await paying.stop();
    expect(await done).toMatchObject({ processed: 2, deadLetters: 1, failed: 2 });
    expect((await owner.query('SELECT cents FROM wallet ORDER BY cents')).rows).toEqual([{ cents: 1 }, { cents: 2 }]);
    await fresh.drop();
  },
);
