import { bindsSpread, inTransaction, isOpen, type SqliteDatabase, type SqliteStatement } from './database.ts';
import { rowsOf, safeIntegers } from './values.ts';

export type Bindable = string | number | bigint | Uint8Array | null;

// A handler has few distinct texts; the bound only protects against text built per message.
const CACHE_LIMIT = 500;

/** One database object with its prepared statements, the same to the store whichever client it is of. */
export class Connection {
  readonly database: SqliteDatabase;
  readonly #spread: boolean;
  readonly #own = new Map<string, SqliteStatement>();
  readonly #queries = new Map<string, SqliteStatement>();
  #file: string | undefined;

  constructor(database: SqliteDatabase) {
    this.database = database;
    this.#spread = bindsSpread(database);
  }

  get isOpen(): boolean {
    return isOpen(this.database);
  }

  get inTransaction(): boolean {
    return inTransaction(this.database);
  }

  /** The path of the main database file, absolute and without links, as SQLite resolved it; empty in memory. */
  get file(): string {
    if (this.#file === undefined) {
      const main = this.all<{ name: string; file: string | null }>('PRAGMA database_list').find(
        row => row.name === 'main',
      );
      this.#file = main?.file ?? '';
    }
    return this.#file;
  }

  exec(sql: string): void {
    this.database.exec(sql);
  }

  /** Runs one of the store's own statements and returns how many rows it changed. */
  run(sql: string, ...values: Bindable[]): number {
    const statement = prepared(this.#own, this.database, sql);
    return Number((this.#spread ? statement.run(...values) : statement.run(values)).changes);
  }

  /** Runs one of the store's own queries. */
  all<Row>(sql: string, ...values: Bindable[]): Row[] {
    const statement = prepared(this.#own, this.database, sql);
    return (this.#spread ? statement.all(...values) : statement.all(values)) as Row[];
  }

  /** Runs a handler's statement: rows also from INSERT … RETURNING, and integers without loss. */
  query(sql: string, values: readonly Bindable[]): Record<string, unknown>[] {
    const statement = prepared(this.#queries, this.database, sql, safeIntegers);
    // better-sqlite3 refuses `all` on a statement that returns no rows, and only its kind tells beforehand.
    if ((statement as { reader?: boolean }).reader === false) {
      if (this.#spread) statement.run(...values);
      else statement.run(values);
      return [];
    }
    return rowsOf(this.#spread ? statement.all(...values) : statement.all(values));
  }

  /** Lets go of the prepared statements. */
  forget(): void {
    this.#own.clear();
    this.#queries.clear();
  }
}

function prepared(
  cache: Map<string, SqliteStatement>,
  database: SqliteDatabase,
  sql: string,
  setUp?: (statement: SqliteStatement) => void,
): SqliteStatement {
  let statement = cache.get(sql);
  if (statement === undefined) {
    statement = database.prepare(sql);
    setUp?.(statement);
    if (cache.size >= CACHE_LIMIT) cache.clear();
    cache.set(sql, statement);
  }
  return statement;
}
