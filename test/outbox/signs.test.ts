import type { Pool, PoolClient } from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createInbox, createOutbox, createRelay, type TransactionalStore } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';
import { type PostgresProxy, postgresProxy } from '../support/postgres-proxy.ts';
import { until } from '../support/until.ts';
import { advisoryLocks, isEmpty, whileRunning } from './support.ts';

let database: FreshDatabase;
let pool: Pool;
let adding: TransactionalStore<PoolClient>;
beforeEach(async () => {
  database = await freshDatabase();
  pool = database.pool();
  adding = postgresStore(pool);
  await adding.outbox.open();
});
afterEach(() => database.drop());

let added = 0;
async function add(): Promise<string> {
  const id = `m${++added}`;
  const outbox = createOutbox({ store: adding });
  await adding.transaction(tx => outbox.add(tx, { topic: 't', id, payload: 1 }));
  outbox.wake();
  return id;
}

/** A relay of another process: with connections and a store of its own, that by itself looks once in a minute. */
function deafRelay(url = database.url, wrap: (pool: Pool) => Pool = one => one, pollMs = 60_000) {
  const own = wrap(database.pool({ connectionString: url, max: 6 }));
  const acked: string[] = [];
  const relay = createRelay({
    store: postgresStore(own, { replyTimeoutMs: 1_000 }),
    destination: ({ id }) => void acked.push(id),
    pollMs,
    concurrency: 1,
    backoff: { minMs: 1, maxMs: 20 },
  });
  return { relay, acked };
}

test('C108: signs of other processes wake a relay; a listener that is cut off is back by itself and looks at once', async () => {
  const { relay, acked } = deafRelay();
  await whileRunning(relay, async () => {
    await until('it listens', () => relay.listening);
    const first = await add();
    await until('it is out at once', () => acked.includes(first), 5_000);
    await until('it has nothing to do', () => isEmpty(adding));
    const { rowCount } = await pool.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database()",
    );
    expect(rowCount).toBe(1);
    const gap = await add();
    await until('what came in the gap is out', () => acked.includes(gap), 8_000);
    await until('it listens again', () => relay.listening, 8_000);
    const later = await add();
    await until('it is out at once', () => acked.includes(later), 5_000);
  });
});

test('C108: a half-open connection is noticed within the heartbeat, and polling goes on meanwhile', async () => {
  const proxy: PostgresProxy = await postgresProxy(database.url);
  const { relay, acked } = deafRelay(proxy.url, undefined, 100);
  await whileRunning(relay, async () => {
    await until('it listens', () => relay.listening);
    proxy.silence();
    await until('it is noticed', () => !relay.listening, 15_000);
    await until('it listens again', () => relay.listening, 15_000);
    const later = await add();
    await until('it is out', () => acked.includes(later), 10_000);
  });
  await proxy.close();
}, 60_000);

test('C109: behind a pooler in transaction mode the relay says that it only polls, and works', async () => {
  // LISTEN reaches some backend, and whoever gets the connection next is somebody else.
  const pooler = (own: Pool): Pool =>
    new Proxy(own, {
      get(target, property) {
        if (property !== 'connect') return Reflect.get(target, property, target);
        return async () => {
          const client = await target.connect();
          return new Proxy(client, {
            get(inner, name) {
              const value = Reflect.get(inner, name, inner);
              if (name === 'query') {
                return (text: unknown, ...rest: unknown[]) =>
                  (inner.query as any)(
                    typeof text === 'string' && text.startsWith('LISTEN') ? 'SELECT 1' : text,
                    ...rest,
                  );
              }
              return typeof value === 'function' ? value.bind(inner) : value;
            },
          });
        };
      },
    });
  const warnings: string[] = [];
  const onWarning = (warning: Error & { code?: string }) => void warnings.push(`${warning.code} ${warning.message}`);
  process.on('warning', onWarning);
  const { relay, acked } = deafRelay(undefined, pooler, 50);
  await whileRunning(relay, async () => {
    const first = await add();
    await until('it is out', () => acked.includes(first));
    await until('it says so', () => warnings.some(text => text.startsWith('NT_OUTBOX_DEAF')), 8_000);
    expect(relay.listening).toBe(false);
    const later = await add();
    await until('it is out', () => acked.includes(later));
  });
  process.off('warning', onWarning);
  expect(warnings.filter(text => text.startsWith('NT_OUTBOX_DEAF'))).toEqual([
    expect.stringContaining('pooler in transaction mode'),
  ]);
  // No lock and no setting of a session is left anywhere.
  expect(await advisoryLocks(pool)).toEqual([]);
});

test('C110: no transaction that adds has a NOTIFY in it, and signs are few', async () => {
  const texts: { readonly client: number; readonly text: string }[] = [];
  let clients = 0;
  const watched: Pool = database.pool({ max: 20 });
  watched.on('connect', client => {
    const nth = ++clients;
    const query = client.query.bind(client) as (...args: any[]) => any;
    client.query = ((...args: any[]) => {
      texts.push({ client: nth, text: typeof args[0] === 'string' ? args[0] : args[0].text });
      return query(...args);
    }) as never;
  });
  const inbox = createInbox({ name: 'shop', store: postgresStore(watched) });
  await inbox.open();
  const work = Array.from({ length: 200 }, (_, n) =>
    inbox.process({ id: `w${n}`, body: {} }, (_, { outbox }) =>
      outbox.add({ topic: 't', key: `k${n % 20}`, payload: n }),
    ),
  );
  await Promise.all(work);
  await until('the signs are given', () => texts.some(({ text }) => text.includes('pg_notify')));
  for (const ofClient of Map.groupBy(texts, ({ client }) => client).values()) {
    let open = false;
    for (const { text } of ofClient) {
      if (/^BEGIN/.test(text)) open = true;
      if (/(^|\n)(COMMIT|ROLLBACK)$/.test(text)) open = false;
      expect(open && /notify/i.test(text), text).toBe(false);
    }
  }
  expect(texts.filter(({ text }) => text.includes('pg_notify')).length).toBeLessThan(100);
});

test('a demoted primary (25006) pauses the relay; nothing is lost, and nothing is published over and over', async () => {
  const published: string[] = [];
  const own = database.pool({ max: 6 });
  const name = new URL(database.url).pathname.slice(1);
  const relay = createRelay({
    store: postgresStore(own),
    destination: ({ id }) => void published.push(id),
    pollMs: 20,
    maxBatch: 10,
    concurrency: 1,
  });
  const sessions = () =>
    pool.query(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()',
      [name],
    );
  // What is in a batch when it happens is acknowledged and cannot be deleted.
  let demoted = false;
  let inHand = 0;
  const points = {
    reach: async ({ step, edge }: { step: string; edge: string }) => {
      if (demoted || step !== 'publish' || edge !== 'after') return;
      demoted = true;
      inHand = published.length;
      await pool.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
      await sessions();
    },
  };
  const outbox = createOutbox({ store: adding });
  await adding.transaction(async tx => {
    for (let n = 0; n < 40; n++) await outbox.add(tx, { topic: 't', key: 'k', id: `d${n}`, payload: n });
  });
  await whileRunning(
    relay,
    async () => {
      await until('it pauses', () => demoted && relay.summary.outages > 2, 15_000);
      expect([published.length, inHand > 0 && inHand < 40]).toEqual([inHand, true]);
      await pool.query(
        `SET default_transaction_read_only = off; ALTER DATABASE ${name} SET default_transaction_read_only = off`,
      );
      await sessions();
      await until(
        'all is out',
        async () => (await isEmpty(adding).catch(() => false)) && published.length >= 40,
        25_000,
      );
    },
    { points },
  );
  expect(published).toEqual(Array.from({ length: 40 }, (_, n) => `d${n}`));
}, 60_000);
