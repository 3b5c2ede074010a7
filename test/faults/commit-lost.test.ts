import { Client, type Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Consumer, createConsumer, type PointAt, type Policy, Reject, type Sql } from '../../src/index.ts';
import { type MemoryBroker, memoryBroker } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { type PostgresProxy, postgresProxy } from '../support/postgres-proxy.ts';
import { endsWithin, until } from '../support/until.ts';

const REPLY_MS = 600;
const LOCK_MS = 30;

// The one moment that a consumer cannot see through: COMMIT is sent, and the connection goes.
describe.each([{ pipeline: true }, { pipeline: false }])('pg with pipeline $pipeline', ({ pipeline }) => {
  let database: FreshDatabase;
  let proxy: PostgresProxy;
  let pool: Pool;
  let admin: Pool;
  let broker: MemoryBroker;
  let running: Promise<unknown>;
  let consumer: Consumer;
  let handled: string[];
  let reached: PointAt[];

  beforeEach(async () => {
    database = await freshDatabase();
    proxy = await postgresProxy(database.url);
    pool = database.pool({ connectionString: proxy.url, pipeline, max: 3 });
    admin = database.pool({ max: 4 });
    await admin.query(`CREATE TABLE wallet (id text PRIMARY KEY, cents int NOT NULL);
      INSERT INTO wallet VALUES ('a', 0);
      CREATE TABLE ledger (message_id text NOT NULL)`);
    broker = memoryBroker({ partitions: 1 });
    handled = [];
    reached = [];
  });

  afterEach(async () => {
    proxy.resume();
    await consumer.stop({ withinMs: 0 });
    await running;
    await proxy.close();
    await database.drop();
  });

  /** Starts the consumer; `during` runs inside each handler call, after its writes. */
  function start(during: (id: string, sql: Sql) => unknown, policy: Policy = {}): void {
    const store = postgresStore(pool, { replyTimeoutMs: REPLY_MS, lockTimeoutMs: LOCK_MS });
    consumer = createConsumer({
      name: 'pay',
      store,
      source: broker.source(),
      concurrency: 1,
      async handle(message, { sql }) {
        handled.push(message.id);
        await sql`INSERT INTO ledger VALUES (${message.id})`;
        await sql`UPDATE wallet SET cents = cents + 500 WHERE id = 'a'`;
        await during(message.id, sql);
      },
      ...policy,
    });
    running = consumer.run({ points: { reach: at => void reached.push(at) } });
  }

  const times = (step: string, edge: string) => reached.filter(at => at.step === step && at.edge === edge).length;
  const allAcked = () => endsWithin(15_000, 'everything is acked', broker.drained('pay'));

  async function credited(messages: number): Promise<void> {
    expect((await admin.query(`SELECT cents FROM wallet`)).rows).toEqual([{ cents: 500 * messages }]);
    const { rows } = await admin.query('SELECT count(*)::int AS n FROM ledger GROUP BY message_id');
    expect(rows).toEqual(Array.from({ length: messages }, () => ({ n: 1 })));
    const inbox = await admin.query('SELECT count(*)::int AS n FROM nevertwice.inbox');
    expect(inbox.rows).toEqual([{ n: messages }]);
    expect(consumer.summary).toMatchObject({ conflicts: 0, deadLetters: 0, failed: 0 });
  }

  /** Arms the fault within the first handler call, so that it is this transaction's COMMIT that it meets. */
  function atFirstCommit(fault: Parameters<PostgresProxy['atNextCommit']>[0]) {
    const held = Promise.withResolvers<Awaited<ReturnType<PostgresProxy['atNextCommit']>>>();
    return {
      during() {
        if (handled.length === 1) void proxy.atNextCommit(fault).then(held.resolve);
      },
      held: held.promise,
    };
  }

  test('the server never saw COMMIT: the message is claimed again, handled again, and its effect is there once', async () => {
    const { during } = atFirstCommit('cut');
    broker.send({ id: 'm1', body: {} });
    start(during);
    await allAcked();
    expect(handled).toEqual(['m1', 'm1']);
    expect(consumer.summary).toMatchObject({ processed: 1, duplicates: 0 });
    await credited(1);
  });

  test('the reply to COMMIT is lost: claiming again finds it done, acks it, and no handler runs again', async () => {
    const { during } = atFirstCommit('drop-reply');
    broker.send({ id: 'm1', body: {} });
    start(during);
    await allAcked();
    expect(handled).toEqual(['m1']);
    expect(consumer.summary).toMatchObject({ processed: 0, duplicates: 1 });
    await credited(1);
  });

  test('the reply to the COMMIT of a batch is lost: every message of it once, all acked', async () => {
    const { during } = atFirstCommit('drop-reply');
    const ids = ['m1', 'm2', 'm3', 'm4', 'm5'];
    for (const id of ids) broker.send({ id, body: {} });
    start(during);
    await allAcked();
    expect(handled).toEqual(ids);
    expect(times('settle', 'after')).toBe(1);
    await credited(5);
  });

  test('five replies in a row are lost: the consumer pauses as in an outage, and the effect is still there once', async () => {
    broker.send({ id: 'm1', body: {} });
    const lost: unknown[] = [];
    start(
      () => {
        for (let i = 0; i < 5; i++) void proxy.atNextCommit('drop-reply').then(held => lost.push(held));
      },
      { transientRetries: 2 },
    );
    await allAcked();
    expect(lost).toHaveLength(5);
    expect(handled).toEqual(['m1']);
    await credited(1);
  });

  test('the reply to the COMMIT of a dead letter is lost: one dead letter, acked', async () => {
    const { during } = atFirstCommit('drop-reply');
    broker.send({ id: 'm1', body: {} });
    start(id => {
      during();
      throw new Reject(`${id} is of no use`);
    });
    await allAcked();
    const { rows } = await admin.query('SELECT message_id, kind FROM nevertwice.dead_letters');
    expect(rows).toEqual([{ message_id: 'm1', kind: 'rejected' }]);
    expect((await admin.query('SELECT * FROM nevertwice.inbox')).rows).toEqual([]);
    expect((await admin.query('SELECT * FROM ledger')).rows).toEqual([]);
  });

  test('COMMIT hangs on its way while the client is back: busy and not acked meanwhile, then once', async () => {
    const { during, held } = atFirstCommit('hold');
    broker.send({ id: 'm1', body: {} });
    start(during);
    const commit = await held;
    commit.cutClient();
    // Each further claim waits LOCK_MS for the old session and finds the message taken.
    await until('three more claims have met the old session', () => times('claim', 'before') >= 4);
    expect(times('settle', 'before')).toBe(0);
    expect(handled).toEqual(['m1']);
    expect(broker.pending('pay')).toBe(1);
    expect((await admin.query('SELECT cents FROM wallet')).rows).toEqual([{ cents: 0 }]);
    await commit.letThrough();
    await allAcked();
    expect(handled).toEqual(['m1']);
    await credited(1);
  });

  test('COMMIT hangs longer than busyWaitMs: the message is handed back, never acked, and done once when it comes again', async () => {
    const { during, held } = atFirstCommit('hold');
    broker.send({ id: 'm1', body: {} });
    start(during, { busyWaitMs: 100 });
    const commit = await held;
    commit.cutClient();
    await until('it was handed back', () => times('settle', 'after') >= 1);
    expect(broker.pending('pay')).toBe(1);
    expect(consumer.summary).toMatchObject({ processed: 0, duplicates: 0, failed: 0 });
    await commit.letThrough();
    await allAcked();
    expect(handled).toEqual(['m1']);
    expect(consumer.summary).toMatchObject({ processed: 0, duplicates: 1 });
    await credited(1);
  });

  test('COMMIT hangs and is lost in the end: the claim is free again, and the message is handled anew', async () => {
    const { during, held } = atFirstCommit('hold');
    broker.send({ id: 'm1', body: {} });
    start(during);
    const commit = await held;
    commit.cutClient();
    await until('a claim has met the old session', () => times('claim', 'before') >= 2);
    commit.drop();
    await allAcked();
    expect(handled).toEqual(['m1', 'm1']);
    await credited(1);
  });

  test('the server works on COMMIT for long while the client is back: busy and not acked meanwhile, then once', async () => {
    // A deferred trigger waits, inside COMMIT, for a lock that we hold.
    await admin.query(`CREATE FUNCTION wait_in_commit() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock(17); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION wait_in_commit()`);
    const gate = new Client({ connectionString: database.url });
    await gate.connect();
    await gate.query('SELECT pg_advisory_lock(17)');
    const { during, held } = atFirstCommit('pass-and-cut');
    broker.send({ id: 'm1', body: {} });
    start(during);
    await held;
    await until('two more claims have met the old session', () => times('claim', 'before') >= 3);
    const { rows } = await admin.query(`SELECT count(*)::int AS n FROM pg_stat_activity
      WHERE datname = current_database() AND query = 'COMMIT' AND state = 'active'`);
    expect(rows).toEqual([{ n: 1 }]);
    expect(times('settle', 'before')).toBe(0);
    await gate.end();
    await allAcked();
    expect(handled).toEqual(['m1']);
    await credited(1);
  });

  test('COMMIT is never answered and nothing is closed: given up after replyTimeoutMs, then claimed again', async () => {
    const { during, held } = atFirstCommit('hold');
    broker.send({ id: 'm1', body: {} });
    start(during);
    const commit = await held;
    const since = performance.now();
    await until('it is claimed again', () => times('claim', 'before') >= 2);
    const waited = performance.now() - since;
    expect(waited).toBeGreaterThan(REPLY_MS * 0.8);
    expect(waited).toBeLessThan(REPLY_MS + 2_000);
    await until('the silent connection is closed on our side', () => !commit.clientIsOpen);
    await commit.letThrough();
    await allAcked();
    expect(handled).toEqual(['m1']);
    await credited(1);
  });

  test('every open connection goes silent, and new ones work: the consumer comes to them by itself', async () => {
    broker.send({ id: 'm1', body: {} });
    start(() => undefined);
    await allAcked();
    // One connection idle for the claim, the other for the probe after it.
    await Promise.all([1, 2].map(() => pool.query('SELECT pg_sleep(0.05)')));
    expect(pool.idleCount).toBe(2);
    proxy.silence();
    broker.send({ id: 'm2', body: {} });
    await allAcked();
    await credited(2);
    expect(pool.totalCount).toBe(1);
  });

  test.each(['claim', 'handle', 'commit'] as const)(
    'half-open at the %s: nothing hangs for longer than its bound, and it goes on when the link is back',
    async where => {
      broker.send({ id: 'm1', body: {} });
      start(
        async (id, sql) => {
          if (id !== 'm2' || handled.length > 2 || where === 'claim') return;
          proxy.stall();
          if (where === 'handle') await sql`SELECT 1`;
        },
        { timeoutMs: 400 },
      );
      await allAcked();
      if (where === 'claim') proxy.stall();
      const before = times('claim', 'before');
      const opened = proxy.opened;
      broker.send({ id: 'm2', body: {} });
      await until('the message is in work', () => times('claim', 'before') > before);
      // Connecting afresh means that the old connection was given up; from a handler, first to cancel its statement.
      const fresh = where === 'handle' ? 2 : 1;
      await until('another connection is tried', () => proxy.opened >= opened + fresh, 5_000);
      expect(broker.pending('pay')).toBe(1);
      proxy.resume();
      await allAcked();
      await credited(2);
    },
  );
});
