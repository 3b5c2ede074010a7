/**
 * What the store calls on a prepared statement. node:sqlite, better-sqlite3 and libsql all have it; they differ in how
 * values are bound, which `Connection` hides.
 */
export interface SqliteStatement {
  run(...values: any[]): { readonly changes: number | bigint };
  all(...values: any[]): unknown[];
  get(...values: any[]): unknown;
}

/** What the store calls on a database object. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
}

/** What tells the clients apart. All optional, since each client has some of it. */
interface Traits {
  /** better-sqlite3 and libsql. */
  readonly inTransaction?: boolean;
  /** node:sqlite. */
  readonly isTransaction?: boolean;
  /** A flag in better-sqlite3 and libsql; in node:sqlite a method. */
  readonly open?: boolean | (() => void);
  /** node:sqlite. */
  readonly isOpen?: boolean;
}

/** True for a database object of a client that can be used: it must tell whether a transaction is open. */
export function isSqliteDatabase(value: unknown): value is SqliteDatabase {
  if (typeof value !== 'object' || value === null) return false;
  const { exec, prepare } = value as Partial<SqliteDatabase>;
  const tells = 'isTransaction' in value || 'inTransaction' in value;
  return typeof exec === 'function' && typeof prepare === 'function' && tells;
}

/** node:sqlite reads an array as named parameters; libsql reads a lone Uint8Array as a list. So each gets its own form. */
export function bindsSpread(database: SqliteDatabase): boolean {
  return 'isTransaction' in database;
}

export function isOpen(database: SqliteDatabase): boolean {
  const traits = database as Traits;
  return typeof traits.open === 'boolean' ? traits.open : (traits.isOpen ?? true);
}

/** Asks a closed libsql database nothing: it would end the process. */
export function inTransaction(database: SqliteDatabase): boolean {
  if (!isOpen(database)) return false;
  const traits = database as Traits;
  return traits.isTransaction ?? traits.inTransaction ?? false;
}
