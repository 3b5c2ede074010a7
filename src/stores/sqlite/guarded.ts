import { NevertwiceError } from '../../errors.ts';
import type { TransactionGuard } from '../sql/guard.ts';
import type { SqliteDatabase, SqliteStatement } from './database.ts';

/** Methods of the clients' database objects that neither write nor end anything. */
const HARMLESS: ReadonlySet<PropertyKey> = new Set<PropertyKey>([
  'location',
  'function',
  'aggregate',
  'table',
  Symbol.for('nodejs.util.inspect.custom'),
]);

const RUNS_STATEMENT: ReadonlySet<PropertyKey> = new Set<PropertyKey>(['run', 'get', 'all']);

/** The one pragma that means something inside a transaction and ends with it. */
const PRAGMA_FOR_TRANSACTION = /^\s*defer_foreign_keys\b/i;

type Method = (this: unknown, ...args: unknown[]) => unknown;

const raws = new WeakMap<SqliteDatabase, SqliteDatabase>();

/** The client's own object under a guarded one, however deep; any other object as it is. */
export function rawDatabase(database: SqliteDatabase): SqliteDatabase {
  const under = raws.get(database);
  return under === undefined ? database : rawDatabase(under);
}

/**
 * The database object as a handler gets it: every run of a statement passes the guard, also of one that was prepared
 * earlier and kept, and whatever would end the transaction or go around the guard is refused by name.
 */
export class GuardedDatabase {
  /** Looks and behaves like the client's object. */
  readonly database: SqliteDatabase;
  readonly #guard: TransactionGuard;
  readonly #check: () => void;
  readonly #cursors = new Set<Iterator<unknown>>();

  /** `check` runs before each statement and throws when the transaction is no longer there. */
  constructor(raw: SqliteDatabase, guard: TransactionGuard, check: () => void) {
    this.#guard = guard;
    this.#check = check;
    const guarded: Readonly<Record<PropertyKey, Method>> = {
      exec: text => this.#exec(raw, String(text)),
      prepare: (text, ...options) => this.#prepare(raw, String(text), options),
      pragma: (text, ...options) => this.#pragma(raw, String(text), options),
    };
    this.database = new Proxy(raw, {
      get: (_, property) => {
        // The clients' getters look for private state on `this`, which a proxy does not have.
        const value: unknown = Reflect.get(raw, property, raw);
        if (typeof value !== 'function' || property === 'constructor') return value;
        if (Object.hasOwn(guarded, property)) return guarded[property];
        return HARMLESS.has(property) ? value.bind(raw) : () => refuse(`${String(property)}()`);
      },
    });
    raws.set(this.database, raw);
  }

  /** Ends iterators that were left half read: better-sqlite3 runs nothing else while one is open, not even COMMIT. */
  closeCursors(): void {
    for (const cursor of this.#cursors) end(cursor);
    this.#cursors.clear();
  }

  #run<R>(text: string, statement: () => R): R {
    return this.#guard.run(text, () => {
      this.#check();
      return statement();
    });
  }

  #exec(raw: SqliteDatabase, text: string): unknown {
    const result = this.#run(text, () => raw.exec(text));
    return result === raw ? this.database : result;
  }

  #prepare(raw: SqliteDatabase, text: string, options: readonly unknown[]): SqliteStatement {
    const statement = this.#run(text, () => (raw.prepare as Method).call(raw, text, ...options) as SqliteStatement);
    return this.#guardStatement(statement, text);
  }

  #pragma(raw: SqliteDatabase, text: string, options: readonly unknown[]): unknown {
    if (text.includes('=') && !PRAGMA_FOR_TRANSACTION.test(text)) refuse('setting a pragma');
    const { pragma } = raw as unknown as { pragma: Method };
    return this.#run(`PRAGMA ${text}`, () => pragma.call(raw, text, ...options));
  }

  #guardStatement(raw: SqliteStatement, text: string): SqliteStatement {
    // A target of its own: better-sqlite3 fixes `database` on its statements, and a proxy may not bend what is fixed.
    const statement: SqliteStatement = new Proxy(Object.create(Object.getPrototypeOf(raw)) as SqliteStatement, {
      has: (_, property) => property in raw,
      get: (_, property) => {
        if (property === 'database') return this.database;
        const value: unknown = Reflect.get(raw, property, raw);
        if (typeof value !== 'function' || property === 'constructor') return value;
        const call = (...args: unknown[]): unknown => {
          const result: unknown = value.apply(raw, args);
          return result === raw ? statement : result;
        };
        if (property === 'iterate') return (...args: unknown[]) => this.#iterate(text, () => value.apply(raw, args));
        return RUNS_STATEMENT.has(property) ? (...args: unknown[]) => this.#run(text, () => call(...args)) : call;
      },
    });
    return statement;
  }

  #iterate(text: string, open: () => Iterator<unknown>): IterableIterator<unknown> {
    const cursor = this.#run(text, open);
    this.#cursors.add(cursor);
    const guarded: IterableIterator<unknown> = {
      next: () => {
        this.#guard.assertOpen();
        const result = cursor.next();
        if (result.done) this.#cursors.delete(cursor);
        return result;
      },
      return: value => {
        if (this.#cursors.delete(cursor)) end(cursor);
        return { done: true, value };
      },
      [Symbol.iterator]: () => guarded,
    };
    return guarded;
  }
}

/** Also for libsql, whose iterators cannot be told to stop and keep their read lock until the last row. */
function end(cursor: Iterator<unknown>): void {
  if (cursor.return !== undefined) cursor.return();
  else while (!cursor.next().done);
}

function refuse(what: string): never {
  throw new NevertwiceError(
    'NT_TX_FORBIDDEN',
    `${what} is refused on the handle of a transaction: a handler uses exec and prepare, and savepoint() of its context to undo a part`,
  );
}
