import { DatabaseSync } from 'node:sqlite';
import { PGlite, type Transaction as PgliteTransaction } from '@electric-sql/pglite';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Kysely, Transaction } from 'kysely';
import { Pool, type PoolClient } from 'pg';
import postgres from 'postgres';
import { expectTypeOf } from 'vitest';
import {
  type ContextOf,
  createConsumer,
  createInbox,
  type InboxCalls,
  type LeaseContext,
  type Sql,
  type TransactionalStore,
  type TransactionContext,
} from '../../src/index.ts';
import { memoryStore } from '../../src/memory.ts';
import { type Executor, pglite, postgresJs, postgresStore } from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';

// The handler's handle has the client's own type, whatever the client.
const onPg = postgresStore(new Pool());
const onPostgresJs = postgresStore(postgresJs(postgres()));
const onPglite = postgresStore(pglite(new PGlite()));
const onSqlite = sqliteStore(new DatabaseSync(':memory:'));
const onMemory = memoryStore();

expectTypeOf<ContextOf<typeof onPg>>().toEqualTypeOf<TransactionContext<PoolClient>>();
expectTypeOf<ContextOf<typeof onPostgresJs>>().toEqualTypeOf<TransactionContext<postgres.TransactionSql>>();
expectTypeOf<ContextOf<typeof onPglite>>().toEqualTypeOf<TransactionContext<PgliteTransaction>>();
expectTypeOf<ContextOf<typeof onSqlite>['tx']>().toEqualTypeOf<DatabaseSync>();
expectTypeOf<ContextOf<typeof onMemory>>().toEqualTypeOf<LeaseContext>();
expectTypeOf<ContextOf<TransactionalStore<'mine'>>['tx']>().toEqualTypeOf<'mine'>();

// A postgres.js client with types of its own keeps them.
const withTypes = postgresJs(postgres({ types: { bigint: postgres.BigInt } }));
expectTypeOf(withTypes).toEqualTypeOf<Executor<postgres.TransactionSql<{ bigint: bigint }>>>();

// An ORM's type comes from `wrap`.
type Db = NodePgDatabase<Record<string, never>>;
const onDrizzle = postgresStore(new Pool(), {
  isolation: 'serializable',
  wrap: (client: PoolClient): Db => drizzle(client),
  unwrap: tx => (tx._.session as unknown as { client: PoolClient }).client,
});
expectTypeOf<ContextOf<typeof onDrizzle>['tx']>().toEqualTypeOf<Db>();

interface Tables {
  wallet: { account: string; balance: number };
}
declare const kysely: Executor<Transaction<Tables>>;
const onKysely = postgresStore(kysely, { schema: 'x', migrate: 'check', lockTimeoutMs: 50 });
expectTypeOf<ContextOf<typeof onKysely>['tx']>().toExtend<Kysely<Tables>>();

// @ts-expect-error isolation is the executor's own business
postgresStore(kysely, { isolation: 'serializable' });
// @ts-expect-error wrap alone leaves inbox.within without a client
postgresStore(new Pool(), { wrap: (client: PoolClient): Db => drizzle(client) });
// @ts-expect-error no pool and no executor
postgresStore('postgres://localhost');
// @ts-expect-error a pool's client is no transaction of postgres.js
postgresStore(postgres());

// In handlers and inboxes the types arrive without being written down.
createConsumer({ name: 'a', store: onPg, handle: (_, { tx }) => tx.query('SELECT 1') });
createConsumer({ name: 'a', store: onPostgresJs, handle: (_, { tx }) => tx`SELECT 1` });
createConsumer({ name: 'a', store: onSqlite, handle: (_, { tx }) => tx.exec('SELECT 1') });
createConsumer({ name: 'a', store: onMemory, handle: (_, context) => expectTypeOf(context.token).toBeBigInt() });
// @ts-expect-error a lease store has no transaction
createConsumer({ name: 'a', store: onMemory, handle: (_, context) => context.tx });

// Without a store, a consumer is portable: `sql` runs on whichever it is given later.
createConsumer({
  name: 'a',
  handle: async (_, context) => {
    expectTypeOf(context.sql).toEqualTypeOf<Sql>();
    const rows = await context.sql<{ balance: number }>`SELECT balance FROM wallet WHERE account = ${'a'}`;
    expectTypeOf(rows).toEqualTypeOf<readonly { balance: number }[]>();
  },
});

// `within` takes the caller's own transaction, and is not there where there are none.
const inbox = createInbox({ name: 'a', store: onPg });
expectTypeOf(inbox.within).parameter(0).toEqualTypeOf<PoolClient>();
expectTypeOf(inbox.within).returns.toEqualTypeOf<InboxCalls<typeof onPg>>();
expectTypeOf(createInbox({ name: 'a', store: onDrizzle }).within)
  .parameter(0)
  .toEqualTypeOf<Db>();
expectTypeOf(createInbox({ name: 'a', store: onMemory }).within).toBeUndefined();
