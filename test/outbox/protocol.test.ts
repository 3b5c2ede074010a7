import type { Pool, PoolClient } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createInbox, createOutbox, createRelay, type TransactionalStore } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { SEED, seeded } from '../support/random.ts';
import { until } from '../support/until.ts';
import { advisoryLocks, firsts, isEmpty, waiting, whileRunning } from './support.ts';

let database: FreshDatabase;
let pool: Pool;
let store: TransactionalStore<PoolClient>;
let a: PoolClient;
let b: PoolClient;
beforeEach(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 20 });
  store = postgresStore(pool);
  await store.outbox.open();
  [a, b] = await Promise.all([pool.connect(), pool.connect()]);
});
afterEach(async () => {
  a.release();
  b.release();
  await database.drop();
});

const outbox = () => createOutbox({ store });
const ids = async () => (await waiting(store)).map(({ id }) => id);
const message = (id: string, key: string | undefined = 'k') => ({ topic: 't', ...(key && { key }), id, payload: id });
/** A statement of somebody waits for a lock that is not a row's. */
const somebodyWaits = () =>
  until('somebody waits', async () => (await advisoryLocks(pool)).some(({ granted }) => !granted));

describe('adding', () => {
  test.each(['read committed', 'repeatable read', 'serializable'])(
    'who adds to a key waits for the one before, at %s; other keys do not',
    async isolation => {
      await a.query(`BEGIN ISOLATION LEVEL ${isolation}`);
      await b.query(`BEGIN ISOLATION LEVEL ${isolation}`);
      await outbox().add(a, message('1'));
      await outbox().add(b, message('other', 'l'));
      await outbox().add(b, message('free', ''));
      const second = outbox().add(b, message('2'));
      await somebodyWaits();
      expect(await ids()).toEqual([]);
      await a.query('COMMIT');
      await second;
      expect(await ids()).toEqual(['1']);
      await b.query('COMMIT');
      expect(await ids()).toEqual(['1', 'other', 'free', '2']);
    },
  );

  test('a handler adds with its commit, so another one of the key need not wait for the rest of it', async () => {
    const inbox = createInbox({ name: 'shop', store });
    const done = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const slow = inbox.process({ id: 'm1', body: {} }, async (_, { outbox }) => {
      await outbox.add(message('slow'));
      begun.resolve();
      await done.promise;
    });
    await begun.promise;
    await inbox.process({ id: 'm2', body: {} }, (_, { outbox }) => outbox.add(message('quick')));
    expect(await ids()).toEqual(['quick']);
    done.resolve();
    await slow;
    expect(await ids()).toEqual(['quick', 'slow']);
  });

  test('ROLLBACK TO gives the lock back with the row; the next add takes it again', async () => {
    await a.query('BEGIN');
    await a.query('SAVEPOINT s');
    await outbox().add(a, message('undone'));
    await a.query('ROLLBACK TO s');
    await b.query('BEGIN');
    await outbox().add(b, message('1'));
    const again = outbox().add(a, message('2'));
    await somebodyWaits();
    await b.query('COMMIT');
    await again;
    await a.query('COMMIT');
    expect(await ids()).toEqual(['1', '2']);
  });

  test('a start is refused where the sequence has been given a cache', async () => {
    await pool.query('ALTER TABLE nevertwice.outbox ALTER COLUMN seq SET CACHE 8');
    await expect(postgresStore(pool).outbox.open()).rejects.toMatchObject({
      code: 'NT_SCHEMA',
      message: expect.stringContaining('SET CACHE 1'),
    });
  });
});

describe('what goes wrong without a part of it', () => {
  const insert = (client: PoolClient, id: string, key: string) =>
    client.query(`INSERT INTO plain (id, key) VALUES ($1, $2) RETURNING seq`, [id, key]);
  const visible = async (where = '') =>
    (await pool.query(`SELECT id FROM plain ${where} ORDER BY seq`)).rows.map(({ id }) => id);
  beforeEach(() => pool.query('CREATE TABLE plain (seq bigserial PRIMARY KEY, id text, key text)'));

  test('a cursor: the lower number that is committed later is lost', async () => {
    await a.query('BEGIN');
    await insert(a, 'late', 'k');
    const { rows } = await insert(b, 'early', 'l');
    expect(await visible()).toEqual(['early']);
    await a.query('COMMIT');
    expect(await visible(`WHERE seq > ${rows[0].seq}`)).toEqual([]);
    expect(await visible()).toEqual(['late', 'early']);
  });

  test('no lock: the later number of a key is published first', async () => {
    await a.query('BEGIN');
    await insert(a, '1', 'k');
    await insert(b, '2', 'k');
    expect(await visible()).toEqual(['2']);
    await a.query('COMMIT');
    expect(await visible()).toEqual(['1', '2']);
  });

  test('lock and number in one statement: the number may be from before the wait', async () => {
    const add = (client: PoolClient, id: string) =>
      client.query(
        `INSERT INTO plain (seq, id, key) SELECT nextval('plain_seq_seq'), $1, CASE WHEN pg_advisory_xact_lock(7) IS NULL THEN 'k' ELSE 'k' END`,
        [id],
      );
    await a.query('BEGIN');
    await a.query('SELECT pg_advisory_xact_lock(7)');
    const waits = add(b, 'second to commit');
    await somebodyWaits();
    await add(a, 'first to commit');
    await a.query('COMMIT');
    await waits;
    expect(await visible()).toEqual(['second to commit', 'first to commit']);
  });

  test('a cached sequence: a session comes later with a number from before', async () => {
    await pool.query('ALTER SEQUENCE plain_seq_seq CACHE 8');
    await insert(a, '1', 'k');
    await insert(b, '2', 'k');
    await insert(a, '3', 'k');
    expect(await visible()).toEqual(['1', '3', '2']);
  });

  test('C105: with SKIP LOCKED the second relay begins behind the first', async () => {
    for (let n = 1; n <= 10; n++) await insert(a, String(n), 'k');
    const take = 'SELECT id FROM plain ORDER BY seq LIMIT 5 FOR UPDATE SKIP LOCKED';
    await a.query('BEGIN');
    await b.query('BEGIN');
    await a.query(take);
    const { rows } = await b.query(take);
    expect(rows[0].id).toBe('6');
    await a.query('ROLLBACK');
    await b.query('ROLLBACK');
  });
});

test('C99, C100: adders without any other lock, and relays without any exclusion: first publications in order, none lost', async () => {
  const random = seeded(SEED);
  const published: { readonly id: string; readonly key: string | undefined }[] = [];
  const committed: { readonly id: string; readonly at: number }[] = [];
  await pool.query('CREATE SEQUENCE commits');
  const adder = async (n: number) => {
    for (let i = 0; i < 40; i++) {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        const keys = random.shuffled(['k0', 'k1', 'k2']).slice(0, 1);
        for (const key of keys) await outbox().add(client, message(`${key} ${n} ${i}`, key));
        if (random.chance(0.2)) await client.query('ROLLBACK');
        else {
          // Under the lock of the key: the order in which the transactions commit.
          const { rows } = await client.query("SELECT nextval('commits') AS at");
          await client.query('COMMIT');
          for (const key of keys) committed.push({ id: `${key} ${n} ${i}`, at: Number(rows[0].at) });
        }
      } finally {
        client.release();
      }
    }
  };
  // All relays have all parts: as if each took itself for the only one.
  const alone = new Proxy(store, {
    get: (target, property) => {
      if (property !== 'outbox') return Reflect.get(target, property, target);
      return new Proxy(target.outbox, {
        get: (inner, name) => {
          if (name === 'join') return async () => Array.from({ length: 16 }, (_, part) => part);
          const value = Reflect.get(inner, name, inner);
          return typeof value === 'function' ? value.bind(inner) : value;
        },
      });
    },
  });
  const relays = Array.from({ length: 3 }, () =>
    createRelay({
      store: alone,
      maxBatch: 5,
      concurrency: 2,
      pollMs: 10,
      backoff: { minMs: 1, maxMs: 3 },
      maxAttempts: 1_000,
      destination: async ({ id, key }) => {
        if (random.chance(0.1)) throw new Error('refused');
        if (random.chance(0.2)) await new Promise(resolve => setTimeout(resolve, random.below(3)));
        published.push({ id, key });
      },
    }),
  );
  await whileRunning(relays, async () => {
    await Promise.all(Array.from({ length: 8 }, (_, n) => adder(n)));
    await until('all is out', () => isEmpty(store), 20_000);
  });
  const once = firsts(published);
  expect(once.map(({ id }) => id).sort(), `seed ${SEED}`).toEqual(committed.map(({ id }) => id).sort());
  const at = new Map(committed.map(one => [one.id, one.at]));
  for (const [key, ofKey] of Map.groupBy(once, one => one.key!)) {
    const order = ofKey.map(({ id }) => at.get(id)!);
    expect(order, `${key}, seed ${SEED}`).toEqual(order.toSorted((x, y) => x - y));
  }
}, 60_000);
