import { randomBytes } from 'node:crypto';
import { Client, type ClientConfig, Pool, type PoolConfig } from 'pg';
import { startPostgres } from '../../../src/verify/servers/postgres-server.ts';
import type { Contestant } from '../../contest.ts';
import { assertBalances, type Load, WALLETS } from '../load.ts';

/** A database of this bench alone, and everything that is connected to it. */
export class PostgresPlace {
  /** For other processes. */
  readonly url: string;
  readonly #closers: (() => Promise<void>)[];
  readonly admin: Client;

  private constructor(url: string, admin: Client, closers: (() => Promise<void>)[]) {
    this.url = url;
    this.admin = admin;
    this.#closers = closers;
  }

  /** On the server that NEVERTWICE_BENCH_POSTGRES names, or on one that is started for it and deleted afterwards. */
  static async open(): Promise<PostgresPlace> {
    const given = process.env.NEVERTWICE_BENCH_POSTGRES;
    const closers: (() => Promise<void>)[] = [];
    try {
      const server = given ?? (await startedServer(closers));
      const url = await freshDatabase(server, closers);
      const admin = new Client({ connectionString: url });
      await admin.connect();
      closers.push(() => admin.end());
      return new PostgresPlace(url, admin, closers);
    } catch (error) {
      await closeAll(closers);
      throw error;
    }
  }

  async client(config: ClientConfig = {}): Promise<Client> {
    const client = new Client({ connectionString: this.url, ...config });
    await client.connect();
    this.#closers.push(() => client.end());
    return client;
  }

  pool(config: PoolConfig): Pool {
    // Never closes an idle connection: a contestant must not pay for connecting because the others took their time.
    const pool = new Pool({ connectionString: this.url, idleTimeoutMillis: 0, ...config });
    this.#closers.push(() => pool.end());
    return pool;
  }

  /** For the head of the table. */
  async facts(): Promise<string> {
    const { rows } = await this.admin.query(
      `select current_setting('server_version') as version, current_setting('fsync') as fsync,
              current_setting('synchronous_commit') as synchronous_commit`,
    );
    const [{ version, fsync, synchronous_commit }] = rows as [Record<string, string>];
    return `PostgreSQL ${version}, fsync ${fsync}, synchronous_commit ${synchronous_commit}`;
  }

  close(): Promise<void> {
    return closeAll(this.#closers);
  }
}

async function startedServer(closers: (() => Promise<void>)[]): Promise<string> {
  const server = await startPostgres();
  closers.push(() => server.stop());
  return server.url;
}

async function freshDatabase(server: string, closers: (() => Promise<void>)[]): Promise<string> {
  const name = `nevertwice_bench_${randomBytes(4).toString('hex')}`;
  const administer = async (statement: string) => {
    const client = new Client({ connectionString: server });
    await client.connect();
    try {
      await client.query(statement);
    } finally {
      await client.end();
    }
  };
  await administer(`create database ${name}`);
  closers.push(() => administer(`drop database ${name} with (force)`));
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

async function closeAll(closers: (() => Promise<void>)[]): Promise<void> {
  for (let close = closers.pop(); close !== undefined; close = closers.pop()) await close();
}

/** Called before every run, not timed; what it gives is the run. */
export type PrepareRun = () => (() => Promise<void>) | Promise<() => Promise<void>>;

export interface WalletJob {
  readonly id: string;
  readonly load: Pick<Load, 'events' | 'once'>;
  /** What the wallets must hold at the end, by wallet. Default: every message once. */
  readonly expected?: readonly number[];
  /**
   * Called once, when the contestant first has its turn; what it returns, before every run. `schema` is the
   * contestant's own and holds `wallet` and `processed`.
   */
  open(schema: string): Promise<PrepareRun>;
}

/** A contestant with tables of its own, so that nobody works on the bloat of another. */
export function walletContestant(place: PostgresPlace, job: WalletJob): Contestant {
  const schema = job.id.replaceAll(/\W/g, '_');
  let opened: Promise<PrepareRun> | undefined;
  const open = async () => {
    await createWallets(place, schema);
    return job.open(schema);
  };
  return {
    id: job.id,
    events: job.load.events,
    async prepare() {
      opened ??= open();
      const prepareRun = await opened;
      await emptyWallets(place, schema);
      return prepareRun();
    },
    check: () => checkWallets(place, schema, job.expected ?? job.load.once),
  };
}

/** A schema with the tables `wallet`, and `processed` for those who deduplicate by hand. */
export async function createWallets({ admin }: PostgresPlace, schema: string): Promise<void> {
  await admin.query(`create schema ${schema};
create table ${schema}.wallet (id int primary key, balance bigint not null);
create table ${schema}.processed (
  consumer text not null,
  message_id uuid not null,
  processed_at timestamptz not null default now(),
  primary key (consumer, message_id))`);
}

/** Wallets of nothing, and nothing remembered: no ids, and no lane whose position would have it begin at its end. */
export async function emptyWallets({ admin }: PostgresPlace, schema: string): Promise<void> {
  const { rows } = await admin.query(
    "select tablename from pg_tables where schemaname = $1 and tablename in ('wallet', 'processed', 'inbox', 'lanes')",
    [schema],
  );
  const tables = (rows as { tablename: string }[]).map(({ tablename }) => `${schema}.${tablename}`);
  await admin.query(`truncate ${tables.join(', ')};
insert into ${schema}.wallet select id, 0 from generate_series(0, ${WALLETS - 1}) as id;
analyze ${schema}.wallet`);
}

/** Rejects unless these are the balances of all wallets. */
export async function checkWallets(
  { admin }: PostgresPlace,
  schema: string,
  expected: readonly number[],
): Promise<void> {
  const { rows } = await admin.query(`select id, balance::float8 as balance from ${schema}.wallet`);
  assertBalances(rows, expected);
}
