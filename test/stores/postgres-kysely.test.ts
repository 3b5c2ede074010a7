import { CompiledQuery, Kysely, PostgresDialect, type Transaction } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createConsumer, createInbox, type Inbox } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { type Executor, type PostgresStoreHandle, postgresStore } from '../../src/stores/postgres/index.ts';
import { warningsOf } from '../path/warnings.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

interface Tables {
  wallet: { account: string; balance: number };
}

// All that Kysely takes.
function kyselyExecutor<DB>(db: Kysely<DB>): Executor<Transaction<DB>> {
  return {
    transaction: work => db.transaction().execute(work),
    query: async (tx, text, values) => tx.executeQuery(CompiledQuery.raw(text, [...values])),
  };
}

describe('kysely', () => {
  let database: FreshDatabase;
  let db: Kysely<Tables>;
  let store: PostgresStoreHandle<Transaction<Tables>>;
  let inbox: Inbox<typeof store>;
  let run = 0;
  beforeAll(async () => {
    database = await freshDatabase();
    db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: database.pool({ pipeline: false, max: 5 }) }) });
    store = postgresStore(kyselyExecutor(db));
    await store.transaction(async (_, sql) => {
      await sql`CREATE TABLE wallet (account text PRIMARY KEY, balance integer NOT NULL)`;
      await sql`INSERT INTO wallet VALUES ('a', 0)`;
    });
  });
  afterAll(() => database.drop());
  beforeEach(async () => {
    await db.updateTable('wallet').set({ balance: 0 }).execute();
    inbox = createInbox({ name: `pay ${run++}`, store });
  });

  const credit = (tx: Kysely<Tables>, amount: number) =>
    tx
      .updateTable('wallet')
      .set(eb => ({ balance: eb('balance', '+', amount) }))
      .execute();
  const balance = async () => (await db.selectFrom('wallet').select('balance').executeTakeFirstOrThrow()).balance;

  test('a handler written with kysely has each effect once, in a batch too', async () => {
    const consumer = createConsumer({
      name: `pay ${run++}`,
      store,
      handle: async (_, { tx, sql }) => {
        await credit(tx, 2);
        await sql`UPDATE wallet SET balance = balance + ${3}`;
      },
    });
    const messages = Array.from({ length: 6 }, (_, i) => ({ id: `m${i % 4}`, body: {} }));
    const summary = await consumer.run({ source: memorySource(messages, { partitions: 1 }) });
    expect(summary).toEqual({ processed: 4, duplicates: 2, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(await balance()).toBe(20);
  });

  test('a rollback undoes what kysely wrote, and the message is fresh again', async () => {
    const warnings = await warningsOf('NT_HANDLE_UNUSED');
    const failing = inbox.process({ id: 'm1', body: {} }, async (_, { tx }) => {
      await credit(tx, 500);
      throw new Error('insufficient funds');
    });
    await expect(failing).rejects.toThrow('insufficient funds');
    expect(await balance()).toBe(0);
    expect((await inbox.process({ id: 'm1', body: {} }, (_, { tx }) => credit(tx, 500))).status).toBe('processed');
    expect(await balance()).toBe(500);
    expect(await warnings.read()).toEqual([]);
  });

  test('C11: a statement that failed and was swallowed fails the message', async () => {
    const swallowing = inbox.process({ id: 'm1', body: {} }, async (_, { tx }) => {
      await credit(tx, 500);
      await tx
        .insertInto('wallet')
        .values({ account: 'a', balance: 1 })
        .execute()
        .catch(() => undefined);
    });
    await expect(swallowing).rejects.toMatchObject({ code: 'NT_TX_ABORTED' });
    expect(await balance()).toBe(0);
  });

  test("inbox.within takes kysely's own transaction, and nobody is told that the handle was not used", async () => {
    const warnings = await warningsOf('NT_HANDLE_UNUSED');
    const once = () =>
      db.transaction().execute(tx => inbox.within(tx).process({ id: 'm1', body: {} }, () => credit(tx, 500)));
    expect((await once()).status).toBe('processed');
    expect((await once()).status).toBe('duplicate');
    expect(await balance()).toBe(500);
    expect(await warnings.read()).toEqual([]);
  });

  test('what belongs to BEGIN and to connections is refused, since the executor does that itself', () => {
    for (const option of [{ isolation: 'serializable' }, { acquireTimeoutMs: 5 }, { prepare: false }]) {
      expect(() => postgresStore(kyselyExecutor(db), option as never)).toThrow(
        expect.objectContaining({ code: 'NT_CONFIG', message: expect.stringContaining(Object.keys(option)[0]!) }),
      );
    }
  });

  describe('whatever a client makes of the error that the work ended with', () => {
    const epipe = Object.assign(new Error('the card network hung up'), { code: 'EPIPE' });
    /** The executor above, on a client that ends a failed transaction with an error of its own. */
    const ending = (with_: (error: unknown) => unknown): Executor<Transaction<Tables>> => {
      const executor = kyselyExecutor(db);
      return {
        ...executor,
        transaction: work =>
          executor.transaction(work).catch(error => {
            throw with_(error);
          }),
      };
    };
    const fails = (executor: Executor<Transaction<Tables>>) =>
      createInbox({ name: `pay ${run++}`, store: postgresStore(executor) }).process({ id: 'm1', body: {} }, () =>
        Promise.reject(epipe),
      );

    test('wrapped, it is still the handler’s own', async () => {
      const wrapping = ending(error => new Error('transaction failed', { cause: error }));
      await expect(fails(wrapping)).rejects.toBe(epipe);
    });

    test('a rollback that trips over a connection that is gone is an outage', async () => {
      const tripping = ending(() => Object.assign(new Error('write ECONNRESET'), { code: 'ECONNRESET' }));
      await expect(fails(tripping)).rejects.toMatchObject({ code: 'NT_STORE_DOWN', cause: { code: 'ECONNRESET' } });
    });
  });
});
