import type { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Consumer, createConsumer } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type TestLog, testLog } from '../support/log-source.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { type PostgresProxy, postgresProxy } from '../support/postgres-proxy.ts';
import { until } from '../support/until.ts';

// By position nothing but the lane's row tells whether a commit landed that nobody confirmed.
describe.each([{ pipeline: true }, { pipeline: false }])('pg with pipeline $pipeline', ({ pipeline }) => {
  let database: FreshDatabase;
  let proxy: PostgresProxy;
  let admin: Pool;
  let log: TestLog;
  let consumer: Consumer;
  let running: Promise<unknown>;
  let handled: string[];

  beforeEach(async () => {
    database = await freshDatabase();
    proxy = await postgresProxy(database.url);
    admin = database.pool({ max: 4 });
    await admin.query(`CREATE TABLE wallet (id text PRIMARY KEY, cents int NOT NULL);
      INSERT INTO wallet VALUES ('a', 0)`);
    log = testLog();
    handled = [];
  });
  afterEach(async () => {
    proxy.resume();
    await consumer.stop({ withinMs: 0 });
    await running.catch(() => undefined);
    await proxy.close();
    await database.drop();
  });

  function start(during: () => unknown): void {
    const pool = database.pool({ connectionString: proxy.url, pipeline, max: 3 });
    consumer = createConsumer({
      name: 'pay',
      store: postgresStore(pool, { replyTimeoutMs: 2_000 }),
      source: log.source(),
      dedupe: 'position',
      async handle({ position }, { sql }) {
        handled.push(position!);
        await sql`UPDATE wallet SET cents = cents + 500 WHERE id = 'a'`;
        await during();
      },
    });
    running = consumer.run();
    running.catch(() => undefined);
  }

  const cents = async () => (await admin.query(`SELECT cents FROM wallet`)).rows[0].cents as number;
  const at = (position: number) =>
    until(`position ${position}`, async () => {
      const { rows } = await admin.query('SELECT position FROM nevertwice.lanes').catch(() => ({ rows: [] }));
      return rows[0]?.position === String(position);
    });

  function atFirstCommit(fault: Parameters<PostgresProxy['atNextCommit']>[0]) {
    const held = Promise.withResolvers<Awaited<ReturnType<PostgresProxy['atNextCommit']>>>();
    return {
      during() {
        if (handled.length === 1) void proxy.atNextCommit(fault).then(held.resolve);
      },
      held: held.promise,
    };
  }

  test('the reply is lost: the raised epoch tells that it landed, and no handler runs again', async () => {
    const { during } = atFirstCommit('drop-reply');
    log.append(...Array.from({ length: 5 }, () => ({ body: {} })));
    start(during);
    await until('all are acked', () => log.commits.at(-1) === 5n);
    log.append({ body: {} });
    await at(6);
    expect(handled).toHaveLength(6);
    expect(await cents()).toBe(3_000);
    await until('all are counted', () => consumer.summary.processed === 1);
    expect(consumer.summary).toMatchObject({ duplicates: 5, failed: 0 });
  });

  test('the server never saw COMMIT: handled again, and its effect is there once', async () => {
    const { during } = atFirstCommit('cut');
    log.append({ body: {} });
    start(during);
    await at(1);
    expect(handled).toHaveLength(2);
    expect(await cents()).toBe(500);
  });

  test('COMMIT hangs on its way while the client is back: it lands or fails, and the effect is there once', async () => {
    const { during, held } = atFirstCommit('hold');
    log.append({ body: {} });
    start(during);
    const commit = await held;
    commit.cutClient();
    // Pipelined, the row is locked already by the statement in front of it, and taking the lane over waits; in one text
    // with COMMIT it is not, and what hangs fails by the epoch.
    await until('it has come back', async () => {
      const { rows } = await admin.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%lanes%'`,
      );
      return rows.length > 0 || handled.length > 1;
    });
    // Its answer is COMMIT or not: which of the two came first at the lane's row.
    void commit.letThrough();
    await at(1);
    log.append({ body: {} });
    await at(2);
    expect(await cents()).toBe(1_000);
  });
});
