import { eq, sql as raw } from 'drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { integer, pgTable, text } from 'drizzle-orm/pg-core';
import type { Pool, PoolClient } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox, type Inbox } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { type PostgresStoreHandle, postgresStore } from '../../src/stores/postgres/index.ts';
import { warningsOf } from '../path/warnings.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

const wallet = pgTable('wallet', { account: text('account').primaryKey(), balance: integer('balance').notNull() });
const schema = { wallet };
type Db = NodePgDatabase<typeof schema>;

// All that Drizzle takes: a handle on the client, and the client of a handle, be it ours or one of db.transaction().
function drizzleStore(pool: Pool): PostgresStoreHandle<Db> {
  return postgresStore(pool, {
    wrap: (client: PoolClient): Db => drizzle(client, { schema }),
    unwrap: tx => (tx._.session as unknown as { client: PoolClient }).client,
  });
}

const credit = (tx: Db, amount: number) =>
  tx
    .update(wallet)
    .set({ balance: raw`${wallet.balance} + ${amount}` })
    .where(eq(wallet.account, 'a'));

describe.each([{ pipeline: true }, { pipeline: false }])('drizzle on node-postgres, pipeline $pipeline', options => {
  let database: FreshDatabase;
  let pool: Pool;
  let db: Db;
  let store: PostgresStoreHandle<Db>;
  let inbox: Inbox<PostgresStoreHandle<Db>>;
  beforeAll(async () => {
    database = await freshDatabase();
    pool = database.pool({ ...options, max: 5 });
    db = drizzle(pool, { schema });
    store = drizzleStore(pool);
    await db.execute(raw`CREATE TABLE wallet (account text PRIMARY KEY, balance integer NOT NULL)`);
  });
  afterAll(() => database.drop());
  let run = 0;
  beforeEach(async () => {
    await db.insert(wallet).values({ account: 'a', balance: 0 });
    inbox = createInbox({ name: `pay ${run++}`, store });
  });
  afterEach(async () => {
    await db.delete(wallet);
  });
  const balance = async () => (await db.select().from(wallet))[0]?.balance;

  test('a handler written with drizzle has each effect once', async () => {
    const consumer = createConsumer({
      name: `pay ${run++}`,
      store,
      handle: async (message, { tx }) => {
        const [row] = await tx.select().from(wallet).where(eq(wallet.account, 'a'));
        await tx.update(wallet).set({ balance: row!.balance + (message.body as { amount: number }).amount });
        expect(await tx.query.wallet.findFirst()).toEqual({ account: 'a', balance: row!.balance + 5 });
      },
    });
    const messages = Array.from({ length: 6 }, (_, i) => ({ id: `m${i % 4}`, body: { amount: 5 } }));
    const summary = await consumer.run({ source: memorySource(messages, { partitions: 1 }) });
    expect(summary).toEqual({ processed: 4, duplicates: 2, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(await balance()).toBe(20);
  });

  test('a rollback undoes what drizzle wrote, and the handle is dead afterwards', async () => {
    const kept: Db[] = [];
    const failing = inbox.process({ id: 'm1', body: {} }, async (_, { tx }) => {
      kept.push(tx);
      await credit(tx, 500);
      throw new Error('insufficient funds');
    });
    await expect(failing).rejects.toThrow('insufficient funds');
    expect(await balance()).toBe(0);
    // Drizzle wraps what the client throws.
    await expect(credit(kept[0]!, 500)).rejects.toMatchObject({ cause: { code: 'NT_TX_CLOSED' } });
    expect(await inbox.process({ id: 'm1', body: {} }, (_, { tx }) => credit(tx, 500))).toMatchObject({
      status: 'processed',
    });
    expect(await balance()).toBe(500);
  });

  test('db.transaction() on the handle is refused: it would commit the effect without its claim', async () => {
    const nested = inbox.process({ id: 'm1', body: {} }, (_, { tx }) => tx.transaction(inner => credit(inner, 500)));
    await expect(nested).rejects.toMatchObject({ cause: { code: 'NT_TX_FORBIDDEN' } });
    expect(await balance()).toBe(0);
  });

  test('C11: a failed statement that drizzle wrapped is still named when the handler swallows it', async () => {
    const swallowing = inbox.process({ id: 'm1', body: {} }, async (_, { tx }) => {
      await tx
        .insert(wallet)
        .values({ account: 'a', balance: 1 })
        .catch(() => undefined);
    });
    await expect(swallowing).rejects.toMatchObject({
      code: 'NT_TX_ABORTED',
      message: expect.stringContaining('23505'),
    });
  });

  test("inbox.within takes drizzle's own transaction, and nobody is told that the handle was not used", async () => {
    const warnings = await warningsOf('NT_HANDLE_UNUSED');
    const once = () =>
      db.transaction(tx => inbox.within(tx).process({ id: 'm1', body: {} }, (_, context) => credit(context.tx, 500)));
    expect((await once()).status).toBe('processed');
    expect((await once()).status).toBe('duplicate');
    expect(await balance()).toBe(500);

    const rolledBack = db.transaction(async tx => {
      await inbox.within(tx).process({ id: 'm2', body: {} }, () => credit(tx, 500));
      tx.rollback();
    });
    await expect(rolledBack).rejects.toThrow();
    expect(await balance()).toBe(500);
    const again = await db.transaction(tx => inbox.within(tx).process({ id: 'm2', body: {} }, () => credit(tx, 500)));
    expect(again.status).toBe('processed');
    expect(await balance()).toBe(1_000);
    expect(await warnings.read()).toEqual([]);
  });
});
