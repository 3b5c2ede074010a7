import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isNevertwiceError, NevertwiceError } from '../../errors.ts';
import { whenFree } from '../sqlite/busy.ts';
import { Connection } from '../sqlite/connection.ts';
import { openFile } from '../sqlite/open-database.ts';
import { localError } from './errors.ts';
import { FileClock } from './file-clock.ts';
import type { LocalSettings } from './options.ts';
import { isEmpty, missingTables, tables } from './schema.ts';

/** What the log beside the file may keep for itself after it was copied into the file. */
const LOG_LIMIT_BYTES = 4 * 2 ** 20;

interface Write {
  readonly work: (connection: Connection, now: number) => unknown;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The file of a store: opened at first use, written in short transactions. Each runs from begin to commit
 * without giving up the thread, so that no two of one process ever meet; other processes are waited for.
 */
export class LeaseFile {
  readonly #store: string;
  readonly #path: string;
  readonly #settings: LocalSettings;
  readonly #clock: FileClock;
  #connection: Promise<Connection> | undefined;
  #writes: Write[] = [];
  #flushed: Promise<void> | undefined;
  #closed = false;

  constructor(store: string, path: string, settings: LocalSettings) {
    this.#store = store;
    this.#path = path;
    this.#settings = settings;
    this.#clock = new FileClock(settings.clock);
  }

  /**
   * Runs `work` in a transaction, again from the start when another process was in the way. `now` is the file's time. What
   * several lanes write in one turn of the event loop is one transaction: a commit costs more than what is in it.
   */
  write<R>(work: (connection: Connection, now: number) => R): Promise<R> {
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    this.#writes.push({ work, resolve: resolve as Write['resolve'], reject });
    this.#flushed ??= nextTurn().then(() => this.#flush());
    return promise;
  }

  async #flush(): Promise<void> {
    this.#flushed = undefined;
    const writes = this.#writes;
    this.#writes = [];
    try {
      const results = await this.#written(writes);
      for (const [i, { resolve }] of writes.entries()) resolve(results[i]);
    } catch (error) {
      // What the file refuses it refuses to all of them, and each would wait for it again. One that fails by itself must not
      // fail its neighbours; nothing of any of them is left.
      if (writes.length === 1 || isNevertwiceError(error, 'NT_STORE_DOWN'))
        for (const { reject } of writes) reject(error);
      else
        for (const write of writes)
          await this.#written([write]).then(([result]) => write.resolve(result), write.reject);
    }
  }

  #written(writes: readonly Write[]): Promise<readonly unknown[]> {
    return this.#run(connection =>
      inTransaction(connection, () => {
        const now = this.#clock.tick(connection);
        return writes.map(({ work }) => work(connection, now));
      }),
    );
  }

  read<R>(work: (connection: Connection, now: number) => R): Promise<R> {
    return this.#run(connection => work(connection, this.#clock.read(connection)));
  }

  async close(): Promise<void> {
    await this.#flushed;
    if (this.#closed) return;
    this.#closed = true;
    const connection = await this.#connection?.catch(() => undefined);
    if (connection !== undefined) close(connection);
  }

  async #run<R>(work: (connection: Connection) => R): Promise<R> {
    this.#assertOpen();
    const connection = await this.#opened();
    let result: R | undefined;
    await this.#whenFree(() => {
      this.#assertOpen();
      result = work(connection);
    });
    return result as R;
  }

  async #opened(): Promise<Connection> {
    this.#connection ??= this.#open();
    try {
      return await this.#connection;
    } catch (error) {
      this.#connection = undefined;
      throw error;
    }
  }

  async #open(): Promise<Connection> {
    const connection = new Connection(openFile(this.#store, this.#path));
    try {
      // SQLite's own wait for a lock would freeze the event loop.
      connection.exec('PRAGMA busy_timeout = 0');
      await this.#whenFree(() => this.#setUp(connection));
      return connection;
    } catch (error) {
      close(connection);
      throw error;
    }
  }

  #setUp(connection: Connection): void {
    // First of all, or the file of another application would be turned into WAL mode.
    const empty = isEmpty(this.#store, connection);
    // Can be chosen only while the file has no page.
    if (empty) connection.exec('PRAGMA auto_vacuum = INCREMENTAL');
    connection.exec('PRAGMA journal_mode = WAL');
    connection.exec(`PRAGMA synchronous = ${this.#settings.durable ? 'FULL' : 'NORMAL'}`);
    connection.exec(`PRAGMA journal_size_limit = ${LOG_LIMIT_BYTES}`);
    const { names } = this.#settings.sqlite;
    if (!empty && missingTables(connection, names).length === 0) return;
    inTransaction(connection, () => {
      const statements = isEmpty(this.#store, connection) ? tables(names) : missingTables(connection, names);
      for (const statement of statements) connection.exec(statement);
    });
  }

  async #whenFree(attempt: () => void): Promise<void> {
    try {
      await whenFree(this.#store, this.#settings.sqlite, () => {
        attempt();
        return undefined;
      });
    } catch (error) {
      throw localError(this.#store, error);
    }
  }

  #assertOpen(): void {
    if (this.#closed) throw new NevertwiceError('NT_CONFIG', `${this.#store}: the store was closed`);
  }
}

function inTransaction<R>(connection: Connection, work: () => R): R {
  // Immediate: a transaction that reads first cannot be upgraded once another writer has committed.
  connection.run('BEGIN IMMEDIATE');
  try {
    const result = work();
    connection.run('COMMIT');
    return result;
  } catch (error) {
    // At some errors (a full disk) SQLite has rolled back by itself.
    if (connection.inTransaction) connection.run('ROLLBACK');
    throw error;
  }
}

function close(connection: Connection): void {
  connection.forget();
  (connection.database as DatabaseSync).close();
}
