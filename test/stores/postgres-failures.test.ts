import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Consumer, createConsumer, type Sql } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { testConsumer } from '../../src/testing/index.ts';
import { until } from '../support/until.ts';
import { type ClientStore, clientStores, credit } from './postgres-clients.ts';

const retries = { attempts: 2, minMs: 1, maxMs: 2 };
const two = ['m-1', 'm-2'].map(id => ({ id, body: {} }));

/** Fails on the server with this code and text, as a trigger or function of the user's would. */
const raise = (sql: Sql, code: string, text: string) => {
  const statement = `DO $$ BEGIN RAISE EXCEPTION '${text}' USING ERRCODE = '${code}'; END $$`;
  return sql(Object.assign([statement], { raw: [statement] }));
};

describe.each(clientStores)('%s', (_, create) => {
  let w: ClientStore;
  beforeAll(async () => {
    w = await create();
  });
  afterAll(() => w.drop());
  beforeEach(() => w.reset());

  const consume = (handle: (message: { id: string }, context: { sql: Sql; tx: any }) => unknown): Consumer =>
    createConsumer({
      name: 'pay',
      store: w.store,
      source: memorySource(two, { partitions: 1, retryLater: false }),
      retries,
      handle,
    });

  test('C01: a redelivered id is a duplicate whatever language the server speaks; the consumer never pauses', async ({
    annotate,
  }) => {
    const locale = await anotherLanguage(w);
    await annotate(locale === undefined ? 'the server has no messages but English ones' : `messages in ${locale}`);
    const consumer = consume((_m, context) => credit(context, 500));
    await consumer.run({ source: memorySource(two.slice(0, 1)) });
    expect(await consumer.run()).toEqual({ processed: 2, duplicates: 1, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(await w.balance()).toBe(1_000);
    expect(w.probes()).toBe(0);
  });

  test.each([
    ['23505', 'Schlüsselwert verletzt Unique-Constraint »inbox_pkey«'],
    ['23505', 'terminating connection due to administrator command'],
    ['P0001', 'could not serialize access due to concurrent update'],
    ['22012', '死锁检测到'],
  ])('C01: %s with the text "%s" is the message’s own failure', async (code, text) => {
    const summary = await consume(async (message, context) => {
      await credit(context, 500);
      if (message.id === 'm-1') await raise(context.sql, code, text);
    }).run();
    expect(summary).toEqual({ processed: 1, duplicates: 0, conflicts: 0, deadLetters: 1, failed: 2 });
    expect(await w.deadLetters()).toEqual([['m-1', 'attempts', expect.stringContaining(code)]]);
    expect(await w.balance()).toBe(500);
    expect(w.probes()).toBe(0);
  });

  test.each([
    ['40001', 'el acceso no se pudo serializar'],
    ['40P01', 'duplicate key value violates unique constraint'],
  ])('C01: %s with the text "%s" is a lost race, which costs no try', async (code, text) => {
    let races = 0;
    const summary = await consume(async (message, context) => {
      await credit(context, 500);
      if (message.id === 'm-1' && races++ < 2) await raise(context.sql, code, text);
    }).run();
    expect(summary).toEqual({ processed: 2, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(await w.balance()).toBe(1_000);
    expect(w.probes()).toBe(0);
  });

  test.each(['EPIPE', 'ECONNREFUSED', '57P01', '08006', '53300', 'CONNECTION_CLOSED'])(
    'an application error that the handler throws itself with code %s is a failed try and no outage',
    async code => {
      const summary = await consume(async (message, context) => {
        await credit(context, 500);
        if (message.id === 'm-1') throw Object.assign(new Error('the card network hung up'), { code });
      }).run();
      expect(summary).toEqual({ processed: 1, duplicates: 0, conflicts: 0, deadLetters: 1, failed: 2 });
      expect(await w.deadLetters()).toEqual([['m-1', 'attempts', `${code}: the card network hung up`]]);
      expect(await w.balance()).toBe(500);
      expect(w.probes()).toBe(0);
    },
  );

  test.each(['57P01', '53100'])(
    '%s from the store itself under the handler is an outage, which costs no try',
    async code => {
      let times = 0;
      const summary = await consume(async (message, context) => {
        await credit(context, 500);
        if (message.id !== 'm-1' || times++ > 0) return;
        // Hidden behind an error of the handler's own, as an ORM would.
        await raise(context.sql, code, 'нет места').catch(() => {
          throw new Error('could not save');
        });
      }).run();
      expect(summary).toEqual({ processed: 2, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
      expect(await w.balance()).toBe(1_000);
      expect(w.probes()).toBeGreaterThan(0);
    },
  );

  test('the connection breaks under the handler: a pause, no try spent, each effect once', async () => {
    const admin = w.database.pool({ max: 1 });
    let cut = false;
    const summary = await consume(async (_m, context) => {
      await credit(context, 500);
      if (cut) return;
      cut = true;
      const [row] = await context.sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`;
      await admin.query('SELECT pg_terminate_backend($1)', [row!.pid]);
      await credit(context, 500);
    }).run();
    expect(summary).toEqual({ processed: 2, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(await w.balance()).toBe(1_000);
    expect(await w.inboxRows()).toBe(2);
  });
});

describe.each(clientStores.filter(([name]) => name.startsWith('pg')))('%s after a failover', (_, create) => {
  test('sessions on what has become a replica are left behind: a pause, no try spent, and it goes on by itself', async () => {
    const w = await create();
    const admin = w.database.pool({ max: 1 });
    const name = new URL(w.database.url).pathname.slice(1);
    const consumer = createConsumer({
      name: 'pay',
      store: w.store,
      retries,
      handle: (_m, context) => credit(context, 500),
    });
    await using t = await testConsumer(consumer);
    expect(await t.deliver({ id: 'm-1', body: {} })).toBe('processed');

    // What a primary that was demoted does to its sessions and to new ones.
    await admin.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    await admin.query(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()',
      [name],
    );
    const delivered = t.deliver({ id: 'm-2', body: {} });
    await until('the consumer pauses, and again after a probe that succeeded', () => w.probes() > 2);
    expect(consumer.summary).toMatchObject({ processed: 1, failed: 0 });

    await admin.query(`ALTER DATABASE ${name} SET default_transaction_read_only = off`);
    expect(await delivered).toBe('processed');
    expect(consumer.summary).toEqual({ processed: 2, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(await w.balance()).toBe(1_000);
    await t.stop();
    await w.drop();
  });
});

/** Makes new sessions speak something else, where the server can. */
async function anotherLanguage(w: ClientStore): Promise<string | undefined> {
  const admin = w.database.pool({ max: 1 });
  const name = new URL(w.database.url).pathname.slice(1);
  for (const locale of ['de_DE.UTF-8', 'fr_FR.UTF-8', 'es_ES.UTF-8', 'ru_RU.UTF-8', 'ja_JP.UTF-8']) {
    const accepted = await admin.query(`ALTER DATABASE ${name} SET lc_messages = '${locale}'`).then(
      () => true,
      () => false,
    );
    if (accepted) return locale;
  }
  return undefined;
}
