import { NevertwiceError } from '../../errors.ts';
import type { TransactionalStore } from '../../ports/store.ts';
import { type Executor, ExecutorDriver } from './clients/executor.ts';
import { PgDriver } from './clients/pg.ts';
import type { PgClientLike, PgPoolLike } from './clients/pg-connection.ts';
import type { Driver } from './driver.ts';
import { PostgresStore } from './store.ts';
import { type NamingOptions, tablesFrom } from './tables.ts';

export type { Executor, HandleGuard } from './clients/executor.ts';
export { pglite } from './clients/pglite.ts';
export { postgresJs } from './clients/postgres-js.ts';

/** A `pg` pool, as far as we use it. */
export interface PgPool {
  connect(): Promise<{ query(...args: any[]): any; release(error?: any): void }>;
}

/** The client type that a pool gives out. */
export type PgTx<P> = P extends { connect: { (): Promise<infer C>; (callback: any): any } }
  ? C
  : P extends { connect(): Promise<infer C> }
    ? C
    : never;

export interface PostgresStoreOptions extends NamingOptions {
  /** `auto` (default) creates and upgrades the tables at the first start; `check` only refuses when they do not fit. */
  readonly migrate?: 'auto' | 'check';
  /** Isolation of the handler's transaction. Default `read committed`. Above it a lost race restarts the transaction. */
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable';
  /**
   * How long a claim waits for a live owner of the same message, in milliseconds, before the batch is split to find it.
   * Default 100, 1 to 60,000. The caller's own `lock_timeout` is back before the handler runs.
   */
  readonly lockTimeoutMs?: number;
  /** How long to wait for a connection, in milliseconds, before pausing. Default 5,000. */
  readonly acquireTimeoutMs?: number;
  /**
   * How long to wait for the server's answer to our own statements, COMMIT above all, in milliseconds, before giving the
   * connection up. Default 30,000.
   */
  readonly replyTimeoutMs?: number;
  /** Keep statements prepared on the server (default). False behind a pooler that cannot. */
  readonly prepare?: boolean;
}

/** With an executor, what belongs to connections and to BEGIN is the executor's own business. */
export type ExecutorStoreOptions = Pick<
  PostgresStoreOptions,
  'schema' | 'tables' | 'migrate' | 'lockTimeoutMs' | 'replyTimeoutMs'
>;

const POOL_OPTIONS: ReadonlySet<string> = new Set(['isolation', 'acquireTimeoutMs', 'prepare', 'wrap', 'unwrap']);

/** Both ways between the pool's client and what handlers get, for ORMs. */
export interface Wrapping<Client, Tx> {
  /** The handler's handle on a client with an open transaction: `client => drizzle(client)`. */
  readonly wrap: (client: Client) => Tx;
  /** The client of such a handle, for `inbox.within(tx)`. */
  readonly unwrap: (tx: Tx) => Client;
}

/** A PostgreSQL store with its migrations at hand. */
export interface PostgresStoreHandle<Tx> extends TransactionalStore<Tx> {
  /** Applies missing migrations and returns their versions; an empty array when there was nothing to do. */
  migrate(): Promise<readonly number[]>;
  /** Versions that `migrate()` would apply. */
  pendingMigrations(): Promise<readonly number[]>;
  /** All migrations as one SQL script, for people who run it by hand. */
  migrationSql(): string;
}

/**
 * Exactly-once effects in PostgreSQL: the claim of a message is an insert in the handler's own transaction.
 *
 * Takes a `pg` pool (`new Pool({ pipeline: true })` is fastest), or an `Executor` for any other client.
 * Throws NT_CONFIG for options out of range; connects at the first use.
 */
export function postgresStore<Tx>(executor: Executor<Tx>, options?: ExecutorStoreOptions): PostgresStoreHandle<Tx>;
export function postgresStore<P extends PgPool, Tx>(
  pool: P,
  options: PostgresStoreOptions & Wrapping<PgTx<P>, Tx>,
): PostgresStoreHandle<Tx>;
export function postgresStore<P extends PgPool>(pool: P, options?: PostgresStoreOptions): PostgresStoreHandle<PgTx<P>>;
export function postgresStore(
  client: PgPool | Executor<unknown>,
  options: PostgresStoreOptions & Partial<Wrapping<any, any>> = {},
): PostgresStoreHandle<any> {
  const lockMs = bounded('lockTimeoutMs', options.lockTimeoutMs, 100, 60_000);
  return new PostgresStore(driverFor(client, options, lockMs), tablesFrom(options), {
    migrate: oneOf('migrate', options.migrate ?? 'auto', ['auto', 'check']),
    lockMs,
    // The server must outlast the handler's own limit, or it ends transactions whose handler is still within it.
    idleMarginMs: 10_000,
  });
}

function driverFor(
  client: PgPool | Executor<unknown>,
  options: PostgresStoreOptions & Partial<Wrapping<any, any>>,
  lockMs: number,
): Driver<any> {
  const replyTimeoutMs = bounded('replyTimeoutMs', options.replyTimeoutMs, 30_000, 600_000);
  if (typeof (client as Partial<Executor<unknown>>).transaction === 'function' && 'query' in client) {
    const given = Object.entries(options).find(([name, value]) => value !== undefined && POOL_OPTIONS.has(name));
    if (given !== undefined) {
      throw new NevertwiceError(
        'NT_CONFIG',
        `${given[0]} is for a pg pool; an executor begins its transactions itself`,
      );
    }
    return new ExecutorDriver(client as Executor<unknown>, replyTimeoutMs);
  }
  if (typeof (client as Partial<PgPool>).connect !== 'function') {
    throw new NevertwiceError(
      'NT_CONFIG',
      'postgresStore needs a pg pool or an executor ({ transaction, query }); for postgres.js use postgresJs(sql)',
    );
  }
  if ((options.wrap === undefined) !== (options.unwrap === undefined)) {
    throw new NevertwiceError(
      'NT_CONFIG',
      'wrap and unwrap come together: unwrap finds the client for inbox.within(tx)',
    );
  }
  return new PgDriver(client as unknown as PgPoolLike, {
    isolation: oneOf('isolation', options.isolation ?? 'read committed', [
      'read committed',
      'repeatable read',
      'serializable',
    ]),
    acquireTimeoutMs: bounded('acquireTimeoutMs', options.acquireTimeoutMs, 5_000, 600_000),
    replyTimeoutMs,
    lockMs,
    prepare: options.prepare ?? true,
    wrap: options.wrap ?? ((c: PgClientLike) => c),
    unwrap: options.unwrap ?? ((tx: PgClientLike) => tx),
  });
}

function oneOf<T extends string>(name: string, value: T, allowed: readonly T[]): T {
  if (allowed.includes(value)) return value;
  throw new NevertwiceError('NT_CONFIG', `${name} must be ${allowed.map(one => `'${one}'`).join(' or ')}`);
}

function bounded(name: string, value: number | undefined, fallback: number, max: number): number {
  if (value === undefined) return fallback;
  if (!Number.isInteger(value) || value < 1 || value > max) {
    throw new NevertwiceError('NT_CONFIG', `${name} must be a whole number of milliseconds from 1 to ${max}`);
  }
  return value;
}
