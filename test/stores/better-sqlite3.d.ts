// better-sqlite3 brings no types; these are what the tests use of it.
declare module 'better-sqlite3' {
  interface Statement {
    readonly reader: boolean;
    run(...values: unknown[]): { changes: number; lastInsertRowid: number | bigint };
    get(...values: unknown[]): unknown;
    all(...values: unknown[]): unknown[];
    iterate(...values: unknown[]): IterableIterator<unknown>;
    raw(on?: boolean): this;
    pluck(on?: boolean): this;
  }
  interface Database {
    readonly inTransaction: boolean;
    readonly open: boolean;
    readonly name: string;
    exec(sql: string): this;
    prepare(sql: string): Statement;
    pragma(source: string, options?: { simple?: boolean }): unknown;
    transaction<F extends (...args: never[]) => unknown>(work: F): F;
    close(): this;
  }
  const Database: new (path: string, options?: { timeout?: number; readonly?: boolean }) => Database;
  namespace Database {
    export type { Database, Statement };
  }
  export default Database;
}
