import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Pool, PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BatchError, createInbox, Reject, type TransactionalStore } from '../../src/index.ts';
import { memoryStore } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { freshDatabase } from '../support/postgres.ts';
import { freshName } from './stores.ts';

/** A transaction that the caller of `within` has begun on a connection of his own. */
interface Callers {
  readonly tx: unknown;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

interface Database {
  readonly store: TransactionalStore<any>;
  begin(): Promise<Callers>;
  /** Balance of an account, as everybody sees it. */
  balance(account: string): Promise<number>;
  letters(consumer: string): Promise<readonly { id: string | null; kind: string }[]>;
  close(): Promise<void>;
}

const databases = [
  { name: 'PostgreSQL, pipelined', open: () => onPostgres(true) },
  { name: 'PostgreSQL, plain pool', open: () => onPostgres(false) },
  { name: 'SQLite', open: onSqlite },
];

describe.each(databases)('$name', ({ name: database, open }) => {
  let db: Database;
  beforeAll(async () => {
    db = await open();
  });
  afterAll(() => db.close());

  async function fixture(policy: object = {}) {
    const name = freshName();
    const inbox = createInbox({ name, store: db.store, ...policy });
    await inbox.open();
    /** The effect of one message: a row of 500, written through the handler's own handle. */
    const pay = async (_: unknown, context: unknown) => {
      const { sql } = context as { sql: (text: TemplateStringsArray, ...values: unknown[]) => Promise<unknown> };
      await sql`INSERT INTO payment (account, amount) VALUES (${name}, ${500})`;
      return 'paid';
    };
    const payAll = async (messages: readonly unknown[], context: unknown) => {
      for (const message of messages) await pay(message, context);
    };
    return { name, inbox, pay, payAll, balance: () => db.balance(name) };
  }
  const m1 = { id: 'm1', body: { amount: 500 } as unknown };

  test('processed inside; it holds once the caller commits, and a second call sees it before and after', async () => {
    const { inbox, pay, balance } = await fixture();
    const caller = await db.begin();
    const joined = inbox.within(caller.tx);
    expect(await joined.process(m1, pay)).toEqual({ status: 'processed', result: 'paid' });
    expect(await joined.process(m1, pay)).toEqual({ status: 'duplicate', cause: 'completed' });
    await caller.commit();
    expect(await balance()).toBe(500);
    expect(await inbox.process(m1, pay)).toMatchObject({ status: 'duplicate' });
    const next = await db.begin();
    expect(await inbox.within(next.tx).process(m1, pay)).toMatchObject({ status: 'duplicate' });
    await next.commit();
    expect(await balance()).toBe(500);
  });

  test('the caller rolls back: the message is free again', async () => {
    const { inbox, pay, balance } = await fixture();
    const caller = await db.begin();
    expect(await inbox.within(caller.tx).process(m1, pay)).toMatchObject({ status: 'processed' });
    await caller.rollback();
    expect(await balance()).toBe(0);
    expect(await inbox.process(m1, pay)).toMatchObject({ status: 'processed' });
    expect(await balance()).toBe(500);
  });

  test.each([new Error('card declined'), new Reject('account closed')])(
    'the handler’s error passes through as it is, once; even a caller who then commits keeps neither claim nor effect',
    async thrown => {
      const { name, inbox, pay, balance } = await fixture();
      const caller = await db.begin();
      let calls = 0;
      const failing = inbox.within(caller.tx).process(m1, async (message, context) => {
        calls++;
        await pay(message, context);
        throw thrown;
      });
      await expect(failing).rejects.toBe(thrown);
      await caller.commit();
      expect([calls, await balance(), await db.letters(name)]).toEqual([1, 0, []]);
      expect(await inbox.process(m1, pay)).toMatchObject({ status: 'processed' });
      expect(await balance()).toBe(500);
    },
  );

  test('a handler that outlives timeoutMs: NT_HANDLER_TIMEOUT, and its handle is dead', async () => {
    const { inbox, pay, balance } = await fixture({ timeoutMs: 40 });
    const goOn = Promise.withResolvers<void>();
    const late = Promise.withResolvers<unknown>();
    const caller = await db.begin();
    const slow = inbox.within(caller.tx).process(m1, async (message, context) => {
      await goOn.promise;
      late.resolve(pay(message, context).catch(error => error));
    });
    await expect(slow).rejects.toMatchObject({ code: 'NT_HANDLER_TIMEOUT' });
    goOn.resolve();
    expect(await late.promise).toMatchObject({ code: 'NT_TX_CLOSED' });
    await caller.rollback();
    expect(await balance()).toBe(0);
  });

  test('dead letters are in the caller’s transaction: gone when he rolls back, there when he commits', async () => {
    const { name, inbox, pay, payAll } = await fixture();
    await inbox.process(m1, pay);
    const circular: { self?: unknown } = {};
    circular.self = circular;
    const batch = [
      m1,
      { id: 'm1', body: { amount: 900 } },
      { id: '', body: {} },
      { id: 'm1', body: circular },
      { id: 'm2', body: circular },
      { id: 'bad', body: {} },
      { id: 'm3', body: {} },
    ];
    const statuses = [
      'duplicate',
      'dead-lettered',
      'dead-lettered',
      'duplicate',
      'dead-lettered',
      'dead-lettered',
      'processed',
    ];
    for (const end of ['rollback', 'commit'] as const) {
      const caller = await db.begin();
      const outcomes = await inbox.within(caller.tx).processBatch(batch, async (messages, context) => {
        const bad = messages.filter(message => message.id === 'bad');
        for (const message of bad) context.reject(message, 'no such account');
        await payAll(messages.slice(bad.length), context);
      });
      expect(outcomes.map(outcome => outcome.status)).toEqual(statuses);
      await caller[end]();
      const letters = (await db.letters(name)).map(({ id, kind }) => [kind, id]).sort();
      const all = [
        ['bad-id', null],
        ['bad-message', 'm2'],
        ['conflict', 'm1'],
        ['rejected', 'bad'],
      ];
      expect(letters).toEqual(end === 'commit' ? all : []);
    }
    expect(await db.balance(name)).toBe(1000);
  });

  test('copies in one batch: of what was done they are duplicates, of what was set aside they are claimed anew', async () => {
    const { name, inbox, payAll, balance } = await fixture();
    const batch = [
      { id: 'a', body: { ok: true as unknown } },
      { id: 'a', body: { ok: true } },
      { id: 'a', body: { ok: 'other' } },
      { id: 'b', body: { ok: false } },
      { id: 'c', body: { ok: false } },
      { id: 'c', body: { ok: false } },
      { id: 'b', body: { ok: true } },
      { id: 'b', body: { ok: true } },
    ];
    const caller = await db.begin();
    const outcomes = await inbox.within(caller.tx).processBatch(batch, async (messages, context) => {
      const bad = messages.filter(message => message.body.ok === false);
      for (const message of bad) context.reject(message, 'not ok');
      await payAll(messages.slice(bad.length), context);
    });
    await caller.commit();
    const aside = Array<string>(4).fill('dead-lettered');
    expect(outcomes.map(outcome => outcome.status)).toEqual([
      'processed',
      'duplicate',
      ...aside,
      'processed',
      'duplicate',
    ]);
    expect((await db.letters(name)).map(({ id, kind }) => [kind, id]).sort()).toEqual([
      ['conflict', 'a'],
      ['rejected', 'b'],
      ['rejected', 'c'],
    ]);
    expect(await balance()).toBe(1000);
  });

  test('processBatch: a failure rejects with BatchError, and nothing of the batch may be acked', async () => {
    const { inbox, payAll, balance } = await fixture();
    const thrown = new Error('card declined');
    const caller = await db.begin();
    const failing = inbox.within(caller.tx).processBatch([m1, { id: 'm2', body: {} }], async (messages, context) => {
      await payAll(messages, context);
      throw thrown;
    });
    const error: BatchError = await failing.then(
      () => expect.unreachable(),
      e => e,
    );
    expect(error).toBeInstanceOf(BatchError);
    expect(error.outcomes).toEqual([
      { status: 'rejected', error: thrown },
      { status: 'rejected', error: thrown },
    ]);
    await caller.rollback();
    expect(await balance()).toBe(0);
  });

  // On SQLite the second caller does not get his BEGIN IMMEDIATE.
  test.skipIf(database === 'SQLite')(
    'another caller who has not ended yet makes it busy: NT_BUSY, without a handler call',
    async () => {
      const { inbox, pay, payAll, balance } = await fixture();
      const [first, second] = [await db.begin(), await db.begin()];
      await inbox.within(first.tx).process(m1, pay);
      await expect(inbox.within(second.tx).process(m1, () => expect.unreachable())).rejects.toMatchObject({
        code: 'NT_BUSY',
        retryable: true,
      });
      await second.rollback();
      const third = await db.begin();
      const busy: BatchError = await inbox
        .within(third.tx)
        .processBatch([m1, { id: 'm2', body: {} }], payAll)
        .then(
          () => expect.unreachable(),
          e => e,
        );
      expect(busy.outcomes).toMatchObject([{ error: { code: 'NT_BUSY' } }, { error: { code: 'NT_BUSY' } }]);
      await third.rollback();
      await first.commit();
      const fourth = await db.begin();
      expect(await inbox.within(fourth.tx).process(m1, pay)).toMatchObject({ status: 'duplicate' });
      await fourth.commit();
      expect(await balance()).toBe(500);
    },
  );
});

test('SQLite that was not opened before the caller began waits for him in vain, and the error says what to do', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-within-'));
  const file = join(folder, 'wallet.db');
  const store = sqliteStore(file, { busyTimeoutMs: 30 });
  const mine = new DatabaseSync(file);
  const inbox = createInbox({ name: 'pay', store });
  mine.exec('BEGIN IMMEDIATE');
  const failing = inbox.within(mine).process({ id: 'm1', body: {} }, () => expect.unreachable());
  await expect(failing).rejects.toMatchObject({
    code: 'NT_STORE_DOWN',
    message: expect.stringContaining('await inbox.open()'),
  });
  mine.exec('ROLLBACK');
  await inbox.open();
  mine.exec('BEGIN IMMEDIATE');
  expect(await inbox.within(mine).process({ id: 'm1', body: {} }, () => 1)).toEqual({ status: 'processed', result: 1 });
  mine.exec('COMMIT');
  await store.close();
  mine.close();
  await rm(folder, { recursive: true });
});

test('a lease store has no transaction to join', () => {
  expect(createInbox({ name: 'pay', store: memoryStore() }).within).toBeUndefined();
});

async function onPostgres(pipeline: boolean): Promise<Database> {
  const database = await freshDatabase();
  const pool: Pool = database.pool({ pipeline });
  const store = postgresStore(pool);
  await pool.query('CREATE TABLE payment (account text, amount integer)');
  const end = (client: PoolClient, word: string) => async () => {
    await client.query(word);
    client.release();
  };
  return {
    store,
    async begin() {
      const client = await pool.connect();
      await client.query('BEGIN');
      return { tx: client, commit: end(client, 'COMMIT'), rollback: end(client, 'ROLLBACK') };
    },
    balance: async account => {
      const { rows } = await pool.query('SELECT coalesce(sum(amount), 0)::int AS sum FROM payment WHERE account = $1', [
        account,
      ]);
      return rows[0].sum;
    },
    letters: async consumer => {
      const { rows } = await pool.query(
        'SELECT d.message_id AS id, d.kind FROM nevertwice.dead_letters d JOIN nevertwice.consumers c ON c.id = d.consumer WHERE c.name = $1',
        [consumer],
      );
      return rows;
    },
    close: () => database.drop(),
  };
}

async function onSqlite(): Promise<Database> {
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-within-'));
  const file = join(folder, 'wallet.db');
  const store = sqliteStore(file);
  const mine = new DatabaseSync(file);
  mine.exec('CREATE TABLE payment (account text, amount integer)');
  const run = (word: string) => async () => mine.exec(word);
  return {
    store,
    async begin() {
      mine.exec('BEGIN IMMEDIATE');
      return { tx: mine, commit: run('COMMIT'), rollback: run('ROLLBACK') };
    },
    balance: async account => {
      return mine.prepare('SELECT coalesce(sum(amount), 0) AS sum FROM payment WHERE account = ?').get(account)!
        .sum as number;
    },
    letters: async consumer =>
      mine
        .prepare(
          'SELECT d.message_id AS id, d.kind FROM nevertwice_dead_letters d JOIN nevertwice_consumers c ON c.id = d.consumer WHERE c.name = ?',
        )
        .all(consumer)
        .map(row => ({ id: row.id as string | null, kind: row.kind as string })),
    async close() {
      await store.close();
      mine.close();
      await rm(folder, { recursive: true });
    },
  };
}
