import type { DatabaseSync } from 'node:sqlite';
import { NevertwiceError } from '../../errors.ts';
import type { Attempts } from '../../ports/attempts.ts';
import type { EffectRows } from '../../ports/effects.ts';
import type { LaneRows } from '../../ports/lanes.ts';
import type { Letters } from '../../ports/letters.ts';
import type { Sql } from '../../ports/sql.ts';
import type {
  ConsumerRegistration,
  Counts,
  Positions,
  StoreCapabilities,
  TransactionalInbox,
  TransactionalStore,
} from '../../ports/store.ts';
import { assertNamed } from '../registration.ts';
import { sqliteAttempts } from './attempts.ts';
import { Connection } from './connection.ts';
import { isOpen, isSqliteDatabase, type SqliteDatabase } from './database.ts';
import { effectsOn } from './effects.ts';
import { own } from './errors.ts';
import { exclusively } from './exclusive.ts';
import { rawDatabase } from './guarded.ts';
import { registerConsumer, SqliteInbox } from './inbox.ts';
import { SqliteLanes } from './lanes.ts';
import { type Access, sqliteLetters } from './letters.ts';
import { check, migrate, migrationSql, pending } from './migrations.ts';
import { connect, openFile } from './open-database.ts';
import { type Settings, type SqliteOptions, settings, type Wrapping } from './options.ts';
import { SqliteOutbox } from './outbox.ts';
import { SqlitePositions } from './positions.ts';
import { queueKey, TransactionRunner } from './runner.ts';
import { readCounts } from './stats.ts';

/** A SQLite store with its migrations at hand. */
export interface SqliteStoreHandle<Tx> extends TransactionalStore<Tx> {
  /** Applies missing migrations and returns their versions; an empty array when there was nothing to do. */
  migrate(): Promise<readonly number[]>;
  /** Versions that `migrate()` would apply. */
  pendingMigrations(): Promise<readonly number[]>;
  /** All migrations as one SQL script, for people who run it by hand. */
  migrationSql(): string;
}

/**
 * A store in a SQLite database: exactly-once effects for everything that a handler writes through its handle.
 *
 * Give a path (opened with node:sqlite at first use, in WAL mode; `:memory:` for a database of its own), or a database
 * object of node:sqlite, better-sqlite3 or libsql, which stays yours to close. On an object that you pass, the store
 * sets `busy_timeout` to 0, since a blocking wait would freeze the process, and raises `synchronous` to FULL, so that
 * no acked message is lost at a power failure; its journal mode stays as it is. Use one client per file in a process:
 * two copies of SQLite in one process do not see each other's locks, and damage the file.
 *
 * Transactions on one file run one after the other in a process, and begin IMMEDIATE. Other processes are waited for
 * without blocking. `tx` is the database object itself behind a guard: BEGIN, COMMIT, `close()` and the like are
 * refused, and every use after the transaction has ended throws NT_TX_CLOSED, also of a statement that was kept.
 *
 * @throws NT_CONFIG for an option that is wrong. What the database has to say comes from `open`.
 */
export function sqliteStore<Tx>(
  path: string,
  options: SqliteOptions & Wrapping<DatabaseSync, Tx>,
): SqliteStoreHandle<Tx>;
export function sqliteStore<Db extends SqliteDatabase, Tx>(
  database: Db,
  options: SqliteOptions & Wrapping<Db, Tx>,
): SqliteStoreHandle<Tx>;
export function sqliteStore(path: string, options?: SqliteOptions): SqliteStoreHandle<DatabaseSync>;
export function sqliteStore<Db extends SqliteDatabase>(database: Db, options?: SqliteOptions): SqliteStoreHandle<Db>;
export function sqliteStore(
  target: string | SqliteDatabase,
  options: SqliteOptions & Partial<Wrapping<any, unknown>> = {},
): SqliteStoreHandle<unknown> {
  const { wrap, unwrap } = options;
  if ((wrap === undefined) !== (unwrap === undefined)) {
    throw new NevertwiceError('NT_CONFIG', 'wrap and unwrap belong together; give both or neither');
  }
  if (typeof target === 'string' ? target === '' : !isSqliteDatabase(target)) {
    throw new NevertwiceError(
      'NT_CONFIG',
      'sqliteStore wants a file path, or a database object of node:sqlite, better-sqlite3 or libsql',
    );
  }
  const identity = (database: unknown) => database;
  return new SqliteStore(target, options, { wrap: wrap ?? identity, unwrap: unwrap ?? identity });
}

class SqliteStore<Tx> implements SqliteStoreHandle<Tx> {
  readonly promise = 'exactly-once';
  readonly capabilities: StoreCapabilities = { overlap: true, connections: undefined };
  readonly name: string;
  readonly positions: Positions;
  readonly lanes: LaneRows;
  readonly outbox: SqliteOutbox<Tx>;
  readonly effects: EffectRows;
  readonly letters: Letters;
  readonly attempts: Attempts;
  readonly #target: string | SqliteDatabase;
  readonly #options: SqliteOptions;
  readonly #settings: Settings;
  readonly #wrapping: Wrapping<SqliteDatabase, Tx>;
  readonly #runner: TransactionRunner;
  readonly #callers = new WeakMap<SqliteDatabase, Connection>();
  #connection: Promise<Connection> | undefined;
  #prepared: Promise<void> | undefined;
  #closed = false;

  constructor(target: string | SqliteDatabase, options: SqliteOptions, wrapping: Wrapping<SqliteDatabase, Tx>) {
    this.#target = target;
    this.#options = options;
    this.#settings = settings(options);
    this.#wrapping = wrapping;
    this.name = `sqlite ${typeof target === 'string' ? target : fileOf(target)}`;
    this.#runner = new TransactionRunner(this.name, this.#settings);
    this.positions = new SqlitePositions(this.name, this.#settings.names, this.#runner, () => this.#ready());
    this.lanes = new SqliteLanes(this.name, this.#settings.names, this.#runner, () => this.#ready());
    this.outbox = new SqliteOutbox(this.name, this.#settings.names, this.#runner, {
      own: () => this.#ready(),
      callers: tx => this.#callersConnection(tx),
    });
    this.effects = effectsOn(this.name, this.#settings.names, this.#runner, () => this.#ready());
    const access: Access = {
      read: async work => {
        const connection = await this.#ready();
        return this.#runner.read(connection, () => own(this.name, () => work(connection)));
      },
      write: async work => {
        const connection = await this.#ready();
        return this.#runner.run(connection, { overlap: false }, async () => own(this.name, () => work(connection)));
      },
    };
    this.letters = sqliteLetters(this.#settings.names, access);
    this.attempts = sqliteAttempts(this.#settings.names, access);
  }

  async open(consumer: ConsumerRegistration): Promise<TransactionalInbox<Tx>> {
    assertNamed(consumer);
    const { names } = this.#settings;
    const connection = await this.#ready();
    const id = await this.#runner.run(connection, { overlap: false }, async () =>
      own(this.name, () => registerConsumer(connection, names, consumer)),
    );
    const scope = { store: this.name, names, consumer: id, wrap: this.#wrapping.wrap };
    const connections = { own: () => this.#connected(), callers: (tx: Tx) => this.#callersConnection(tx) };
    return new SqliteInbox(scope, this.#runner, connections, () => this.outbox.wake());
  }

  async transaction<R>(work: (tx: Tx, sql: Sql) => Promise<R>): Promise<R> {
    const connection = await this.#connected();
    return this.#runner.run(connection, { overlap: false }, open => work(this.#wrapping.wrap(open.database), open.sql));
  }

  // The write lock keeps two processes apart.
  async setup(_consumer: string, work: (sql: Sql) => Promise<void>): Promise<void> {
    await this.transaction((_, sql) => work(sql));
  }

  async migrate(): Promise<readonly number[]> {
    return migrate(this.name, await this.#connected(), this.#runner, this.#settings.names);
  }

  async pendingMigrations(): Promise<readonly number[]> {
    return pending(await this.#connected(), this.#runner, this.#settings.names);
  }

  migrationSql(): string {
    return migrationSql(this.#options);
  }

  async ping(): Promise<void> {
    // Takes the write lock for a moment, since that is what the next message will need.
    await this.#runner.run(await this.#connected(), { overlap: false }, async () => undefined);
  }

  async stats(): Promise<readonly Counts[]> {
    const connection = await this.#connected();
    return this.#runner.read(connection, () => readCounts(connection, this.#settings.names));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const connection = await this.#connection?.catch(() => undefined);
    if (connection === undefined) return;
    await exclusively(queueKey(connection), async () => {
      connection.forget();
      if (typeof this.#target === 'string') (connection.database as DatabaseSync).close();
    });
  }

  async #connected(): Promise<Connection> {
    if (this.#closed) throw new NevertwiceError('NT_CONFIG', `${this.name}: the store was closed`);
    this.#connection ??= this.#connect();
    try {
      return await this.#connection;
    } catch (error) {
      this.#connection = undefined;
      throw error;
    }
  }

  async #connect(): Promise<Connection> {
    const path = typeof this.#target === 'string';
    const database = typeof this.#target === 'string' ? openFile(this.name, this.#target) : this.#target;
    return connect(this.name, database, this.#settings, { wal: path });
  }

  /** Connected, and the tables are there and fit. */
  async #ready(): Promise<Connection> {
    const connection = await this.#connected();
    this.#prepared ??= this.#prepare(connection);
    try {
      await this.#prepared;
    } catch (error) {
      this.#prepared = undefined;
      throw error;
    }
    return connection;
  }

  async #prepare(connection: Connection): Promise<void> {
    if (this.#settings.migrate === 'auto') await this.migrate();
    await check(this.name, connection, this.#runner, this.#settings.names);
  }

  async #callersConnection(tx: Tx): Promise<Connection> {
    const database = this.#wrapping.unwrap(tx);
    if (!isSqliteDatabase(database)) {
      throw new NevertwiceError(
        'NT_CONFIG',
        'within: the handle is no SQLite database object, nor does unwrap() give one',
      );
    }
    const known = this.#callers.get(database);
    if (known !== undefined) return known;
    const own = await this.#connected();
    const callers = database === own.database ? own : new Connection(database);
    // The consumer's number belongs to one database; in another it may be anybody's.
    if (queueKey(callers) !== queueKey(own)) {
      throw new NevertwiceError('NT_CONFIG', `within: the handle belongs to another database than ${this.name}`);
    }
    this.#callers.set(database, callers);
    return callers;
  }
}

function fileOf(database: SqliteDatabase): string {
  const raw = rawDatabase(database);
  if (!isOpen(raw)) throw new NevertwiceError('NT_CONFIG', 'sqliteStore: the database object is closed');
  return new Connection(raw).file || ':memory:';
}
