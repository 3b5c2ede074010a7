import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import type { Sql, TransactionalStore } from '../../src/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { type FreshDatabase, freshDatabase } from './postgres.ts';

/** A store with a wallet in it, on a database of its own, for tests that run the same on every transactional store. */
export interface WalletStore {
  readonly store: TransactionalStore<any>;
  /** Another store object on the same data, like a second process. */
  another(): TransactionalStore<any>;
  sql<Row = Record<string, unknown>>(text: TemplateStringsArray, ...values: unknown[]): Promise<readonly Row[]>;
  balance(account?: string): Promise<number>;
  /** Rows of the inbox, over all consumers. */
  inboxRows(): Promise<number>;
  /** As a database has it that lost its last commits: no row of any lane, or no id. */
  forgetLanes(): Promise<unknown>;
  forgetIds(): Promise<unknown>;
  deadLetters(): Promise<readonly { message_id: string | null; kind: string; reason: string }[]>;
  drop(): Promise<void>;
}

export interface Backend {
  readonly name: string;
  create(): Promise<WalletStore>;
}

export const backends: readonly Backend[] = [
  { name: 'PostgreSQL, pipelined', create: () => onPostgres({ pipeline: true }) },
  { name: 'PostgreSQL, plain pool', create: () => onPostgres({ pipeline: false }) },
  { name: 'SQLite', create: onSqlite },
];

export async function onPostgres(
  options: { pipeline?: boolean; max?: number } & Parameters<typeof postgresStore>[1] = {},
): Promise<WalletStore> {
  const { pipeline = true, max = 10, ...storeOptions } = options;
  shared ??= freshDatabase();
  const database = await shared;
  const pool = database.pool({ pipeline, max });
  const another = () => postgresStore(pool, storeOptions);
  return wallet({
    store: another(),
    another,
    inbox: 'nevertwice.inbox',
    deadLetters: 'nevertwice.dead_letters',
    lanes: 'nevertwice.lanes',
    async drop() {
      await pool.query('DROP SCHEMA IF EXISTS nevertwice CASCADE');
      await pool.query('DROP SCHEMA public CASCADE');
      await pool.query('CREATE SCHEMA public');
      await pool.end();
    },
  });
}

// One database a test file, emptied after each test: making one takes ten times as long.
let shared: Promise<FreshDatabase> | undefined;
afterAll(async () => (await shared)?.drop());

async function onSqlite(): Promise<WalletStore> {
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-path-'));
  const opened: TransactionalStore<any>[] = [];
  const another = () => {
    const store = sqliteStore(join(folder, 'wallet.db'));
    opened.push(store);
    return store;
  };
  return wallet({
    store: another(),
    another,
    inbox: 'nevertwice_inbox',
    deadLetters: 'nevertwice_dead_letters',
    lanes: 'nevertwice_lanes',
    async drop() {
      for (const store of opened) await store.close();
      await rm(folder, { recursive: true, force: true });
    },
  });
}

interface Parts {
  readonly store: TransactionalStore<any>;
  readonly another: () => TransactionalStore<any>;
  readonly inbox: string;
  readonly deadLetters: string;
  readonly lanes: string;
  drop(): Promise<void>;
}

async function wallet({ store, another, inbox, deadLetters, lanes, drop }: Parts): Promise<WalletStore> {
  const sql: WalletStore['sql'] = <Row>(text: TemplateStringsArray, ...values: unknown[]) =>
    store.transaction((_, run: Sql) => run<Row>(text, ...values));
  const query = <Row>(text: string) =>
    sql<Row>(Object.assign([text], { raw: [text] }) as unknown as TemplateStringsArray);
  await sql`CREATE TABLE wallet (account text PRIMARY KEY, balance integer NOT NULL)`;
  await sql`INSERT INTO wallet (account, balance) VALUES ('a', 0), ('b', 0)`;
  return {
    store,
    another,
    sql,
    async balance(account = 'a') {
      const [row] = await sql<{ balance: number }>`SELECT balance FROM wallet WHERE account = ${account}`;
      return Number(row!.balance);
    },
    async inboxRows() {
      const [row] = await query<{ n: number | string }>(`SELECT count(*) AS n FROM ${inbox}`);
      return Number(row!.n);
    },
    forgetLanes: () => query(`DELETE FROM ${lanes}`),
    forgetIds: () => query(`DELETE FROM ${inbox}`),
    deadLetters: () => query(`SELECT message_id, kind, reason FROM ${deadLetters} WHERE closed_at IS NULL ORDER BY id`),
    drop,
  };
}

/** Credits an account through the portable handle. */
export async function credit(context: { sql: Sql }, amount: number, account = 'a'): Promise<void> {
  await context.sql`UPDATE wallet SET balance = balance + ${amount} WHERE account = ${account}`;
}
