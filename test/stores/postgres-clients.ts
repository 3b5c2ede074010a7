import postgres from 'postgres';
import type { Sql, TransactionalStore } from '../../src/index.ts';
import { postgresJs, postgresStore } from '../../src/stores/postgres/index.ts';
import { type FreshDatabase, freshDatabase } from '../support/postgres.ts';

/** A store on its own database, with a wallet of one account. Tests that share it begin with `reset`. */
export interface ClientStore {
  readonly store: TransactionalStore<any>;
  readonly database: FreshDatabase;
  /** How often the store was probed: a consumer does that when it pauses, and never else. */
  readonly probes: () => number;
  /** Empties account, inbox and dead letters; no probe has happened. */
  reset(): Promise<void>;
  balance(): Promise<number>;
  inboxRows(): Promise<number>;
  deadLetters(): Promise<readonly (readonly [id: string, kind: string, reason: string])[]>;
  drop(): Promise<void>;
}

/** The ways to a real server, by name. */
export const clientStores: readonly (readonly [name: string, create: () => Promise<ClientStore>])[] = [
  ['pg, pipelined', () => onPool(true)],
  ['pg, plain pool', () => onPool(false)],
  ['postgres.js', onPostgresJs],
];

async function onPool(pipeline: boolean): Promise<ClientStore> {
  const database = await freshDatabase();
  return withWallet(database, postgresStore(database.pool({ pipeline, max: 4 })), () => database.drop());
}

async function onPostgresJs(): Promise<ClientStore> {
  const database = await freshDatabase();
  const sql = postgres(database.url, { max: 4, onnotice: () => undefined });
  return withWallet(database, postgresStore(postgresJs(sql)), async () => {
    await sql.end({ timeout: 1 });
    await database.drop();
  });
}

async function withWallet(
  database: FreshDatabase,
  store: TransactionalStore<any>,
  drop: () => Promise<void>,
): Promise<ClientStore> {
  const aside = database.pool({ max: 1 });
  await store.open({ name: 'somebody', signature: 's' });
  await aside.query('CREATE TABLE wallet (account text PRIMARY KEY, balance integer NOT NULL)');
  await aside.query("INSERT INTO wallet VALUES ('a', 0)");
  let probes = 0;
  const ping = store.ping.bind(store);
  store.ping = () => {
    probes++;
    return ping();
  };
  return {
    store,
    database,
    probes: () => probes,
    reset: async () => {
      await aside.query('UPDATE wallet SET balance = 0');
      await aside.query('TRUNCATE nevertwice.inbox, nevertwice.dead_letters, nevertwice.consumers');
      probes = 0;
    },
    balance: async () => (await aside.query('SELECT balance FROM wallet')).rows[0].balance,
    inboxRows: async () => (await aside.query('SELECT count(*)::int AS n FROM nevertwice.inbox')).rows[0].n,
    deadLetters: async () => {
      const { rows } = await aside.query('SELECT message_id, kind, reason FROM nevertwice.dead_letters ORDER BY id');
      return rows.map(row => [row.message_id, row.kind, row.reason] as const);
    },
    drop,
  };
}

export const credit = ({ sql }: { sql: Sql }, amount: number) =>
  sql`UPDATE wallet SET balance = balance + ${amount} WHERE account = 'a'`;
