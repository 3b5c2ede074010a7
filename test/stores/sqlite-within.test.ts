import type { DatabaseSync } from 'node:sqlite';
import Database from 'better-sqlite3';
import { drizzle } from 'drizzle-orm/better-sqlite3';
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import { describe, expect, expectTypeOf, test } from 'vitest';
import type { TransactionalStore } from '../../src/ports/store.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { clients, temporaryFile } from './sqlite-clients.ts';
import { budget, claimOf, walletOn } from './sqlite-support.ts';

const consumer = { name: 'ledger', signature: 's/1' };
const nothing = async () => undefined;

describe.each(Object.keys(clients))('within on %s', client => {
  test('claims in a transaction that the caller has begun on the very handle of the store', async () => {
    await using wallet = await walletOn(client);
    wallet.database.exec('BEGIN IMMEDIATE');
    await wallet.inbox.within(
      wallet.database,
      [claimOf('m1')],
      ({ sql }) => sql`INSERT INTO wallet (amount) VALUES (500)`,
    );
    wallet.database.exec('ROLLBACK');
    expect(wallet.amounts()).toEqual([]);
    wallet.database.exec('BEGIN IMMEDIATE');
    await wallet.inbox.within(wallet.database, [claimOf('m1')], async unit => {
      expect(unit.fresh).toEqual([true]);
      unit.tx.exec('INSERT INTO wallet (amount) VALUES (500)');
    });
    wallet.database.exec('COMMIT');
    expect(wallet.amounts()).toEqual([500]);
  });

  test('without an open transaction it is refused', async () => {
    await using wallet = await walletOn(client);
    await expect(wallet.inbox.within(wallet.database, [claimOf('m1')], nothing)).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringMatching(/no transaction is open/),
    });
    await wallet.inbox.transaction([claimOf('m1')], budget, async unit => expect(unit.fresh).toEqual([true]));
  });

  test('a handle on another database is refused: the consumer has another number there', async () => {
    await using wallet = await walletOn(client);
    await using other = await walletOn(client);
    other.database.exec('BEGIN IMMEDIATE');
    await expect(wallet.inbox.within(other.database, [claimOf('m1')], nothing)).rejects.toMatchObject({
      code: 'NT_CONFIG',
      message: expect.stringMatching(/another database/),
    });
    other.database.exec('ROLLBACK');
    await expect(wallet.inbox.within({} as never, [], nothing)).rejects.toMatchObject({ code: 'NT_CONFIG' });
  });

  test("the store's own transaction is not the caller's: the raw handle is refused in it, the given one is welcome", async () => {
    await using wallet = await walletOn(client);
    const audit = await wallet.store.open({ name: 'audit', signature: 's/1' });
    await wallet.inbox.transaction([claimOf('m1')], budget, async ({ tx, sql }) => {
      await sql`INSERT INTO wallet (amount) VALUES (1)`;
      await expect(audit.within(wallet.database, [claimOf('m1')], nothing)).rejects.toMatchObject({
        code: 'NT_CONFIG',
      });
      await audit.within(tx, [claimOf('m1')], inner => inner.sql`INSERT INTO wallet (amount) VALUES (2)`);
      const failing = audit.within(tx, [claimOf('m2')], async inner => {
        await inner.sql`INSERT INTO wallet (amount) VALUES (3)`;
        throw new Error('inner');
      });
      await expect(failing).rejects.toThrow('inner');
    });
    expect(wallet.amounts()).toEqual([1, 2]);
    const claims = [claimOf('m1'), claimOf('m2')];
    await audit.transaction(claims, budget, async unit => expect(unit.fresh).toEqual([false, true]));
  });

  test('several at once on one handle take turns, and a handle inside its own is refused', async () => {
    await using wallet = await walletOn(client);
    wallet.database.exec('BEGIN IMMEDIATE');
    const write = (id: string, amount: number) =>
      wallet.inbox.within(wallet.database, [claimOf(id)], async ({ sql }) => {
        await new Promise(resolve => setImmediate(resolve));
        await sql`INSERT INTO wallet (amount) VALUES (${amount})`;
        if (amount === 2) throw new Error('two fails');
      });
    const settled = await Promise.allSettled([write('m1', 1), write('m2', 2), write('m3', 3)]);
    expect(settled.map(result => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    const nested = wallet.inbox.within(wallet.database, [claimOf('m4')], () => write('m5', 5));
    await expect(nested).rejects.toMatchObject({ code: 'NT_TX_FORBIDDEN' });
    wallet.database.exec('COMMIT');
    expect(wallet.amounts()).toEqual([1, 3]);
    const claims = ['m1', 'm2', 'm3', 'm4', 'm5'].map(id => claimOf(id));
    await wallet.inbox.transaction(claims, budget, async unit =>
      expect(unit.fresh).toEqual([false, true, false, true, true]),
    );
  });

  test('the handle dies with the call, and a transaction that was rolled back inside fails it', async () => {
    await using wallet = await walletOn(client);
    wallet.database.exec("INSERT INTO wallet (note, amount) VALUES ('taken', 0)");
    wallet.database.exec('BEGIN IMMEDIATE');
    const kept = await wallet.inbox.within(wallet.database, [], async ({ tx }) => tx);
    expect(() => kept.exec('SELECT 1')).toThrow(expect.objectContaining({ code: 'NT_TX_CLOSED' }));
    const lost = wallet.inbox.within(wallet.database, [claimOf('m1')], async ({ tx }) => {
      expect(() => tx.exec("INSERT OR ROLLBACK INTO wallet (note) VALUES ('taken')")).toThrow();
    });
    await expect(lost).rejects.toMatchObject({ code: 'NT_TX_ABORTED' });
    expect(wallet.amounts()).toEqual([0]);
  });

  test('a deferred transaction that cannot get the lock says how to begin', async () => {
    await using wallet = await walletOn(client);
    const other = clients[client]!(wallet.path);
    other.exec('PRAGMA busy_timeout = 0; BEGIN');
    await wallet.store.transaction(async () => {
      await expect(wallet.inbox.within(other, [claimOf('m1')], nothing)).rejects.toMatchObject({
        code: 'NT_STORE_DOWN',
        message: expect.stringMatching(/BEGIN IMMEDIATE/),
      });
    });
    other.close();
  });
});

test("Drizzle: tx is Drizzle's own handle, in the store's transactions and in the caller's", async () => {
  const { path, remove } = temporaryFile();
  const database = new Database(path);
  const wallet = sqliteTable('wallet', { id: text().primaryKey(), amount: integer().notNull() });
  database.exec('CREATE TABLE wallet (id TEXT PRIMARY KEY, amount INTEGER NOT NULL)');
  const store = sqliteStore(database, {
    wrap: db => drizzle({ client: db as never }),
    unwrap: tx => tx.$client as never,
  });
  const inbox = await store.open(consumer);
  const kept = await inbox.transaction([claimOf('m1')], budget, async ({ tx }) => {
    tx.insert(wallet).values({ id: 'a', amount: 500 }).run();
    expect(tx.select().from(wallet).all()).toEqual([{ id: 'a', amount: 500 }]);
    expect(() => tx.transaction(() => undefined)).toThrow(expect.objectContaining({ code: 'NT_TX_FORBIDDEN' }));
    return tx;
  });
  expect(() => kept.select().from(wallet).all()).toThrow(expect.objectContaining({ code: 'NT_TX_CLOSED' }));

  const own = drizzle({ client: database as never });
  database.exec('BEGIN IMMEDIATE');
  await inbox.within(own as never, [claimOf('m2')], async ({ tx }) =>
    tx.insert(wallet).values({ id: 'b', amount: 1 }).run(),
  );
  database.exec('COMMIT');
  expect(own.select().from(wallet).all()).toHaveLength(2);
  database.close();
  remove();
});

test('the handle has the type of what was given', () => {
  type TxOf<S> = S extends TransactionalStore<infer Tx> ? Tx : never;
  expectTypeOf<TxOf<ReturnType<typeof byPath>>>().toEqualTypeOf<DatabaseSync>();
  const database = new Database(':memory:');
  const store = sqliteStore(database);
  expectTypeOf<TxOf<typeof store>>().toEqualTypeOf<typeof database>();
  const wrapped = sqliteStore(database, { wrap: db => ({ db }), unwrap: tx => tx.db });
  expectTypeOf<TxOf<typeof wrapped>>().toEqualTypeOf<{ db: typeof database }>();
  database.close();
});

const byPath = () => sqliteStore(':memory:');

test('options that are wrong are refused by name', () => {
  const refused: readonly (readonly [() => unknown, RegExp])[] = [
    [() => sqliteStore(''), /file path/],
    [() => sqliteStore({} as never), /database object/],
    [() => sqliteStore({ exec: () => 1, prepare: () => 1 } as never), /database object/],
    [() => sqliteStore(':memory:', { busyTimeoutMs: -1 }), /busyTimeoutMs/],
    [() => sqliteStore(':memory:', { migrate: 'later' as never }), /migrate/],
    [() => sqliteStore(':memory:', { tables: { inbox: 'x', positions: 'X' } }), /same name/],
    [() => sqliteStore(':memory:', { tables: { drafts: 'x' } as never }), /tables.drafts/],
    [() => sqliteStore(':memory:', { tablePrefix: 'x'.repeat(60) }), /63 bytes/],
    [() => sqliteStore(':memory:', { wrap: (db: unknown) => db } as never), /belong together/],
  ];
  for (const [make, message] of refused) {
    expect(make).toThrow(expect.objectContaining({ code: 'NT_CONFIG', message: expect.stringMatching(message) }));
  }
});
