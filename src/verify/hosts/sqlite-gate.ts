import { realpathSync } from 'node:fs';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { ask } from './sqlite-asker.ts';
import { errorText, isBusy, isQuiet, statementsIn, verbOf, withParameters } from './sqlite-text.ts';

/** One connection to the file. */
interface Link {
  readonly number: number;
  /** Of the user: how long a statement may wait for a lock. In truth none waits, since the verifier decides how long. */
  limitMs: number;
  /** It has read or written in its open transaction. */
  engaged: boolean;
}

const native = {
  exec: DatabaseSync.prototype.exec,
  prepare: DatabaseSync.prototype.prepare,
  run: StatementSync.prototype.run,
  get: StatementSync.prototype.get,
  all: StatementSync.prototype.all,
};

/**
 * Holds each statement on this file in the process that runs it: there is no wire. From the returned function's call on; what a
 * module does while it loads is no part of a delivery.
 *
 * @param ungated told of what cannot be held
 */
export function gateSqlite(path: string, ungated: (what: string) => void): () => void {
  const links = new WeakMap<DatabaseSync, Link | undefined>();
  const owners = new WeakMap<StatementSync, DatabaseSync>();
  const file = realpathSync(path);
  let holds = false;
  let count = 0;

  const linkOf = (database: DatabaseSync): Link | undefined => {
    if (!holds) return undefined;
    if (links.has(database)) return links.get(database);
    const location = database.location();
    // A database in memory is its process's own, and dies with it.
    if (location !== null && location !== file) ungated(`the SQLite file ${location}`);
    const link = location === file ? { number: ++count, limitMs: limitOf(database), engaged: false } : undefined;
    if (link !== undefined) native.exec.call(database, 'PRAGMA busy_timeout = 0');
    links.set(database, link);
    return link;
  };

  const held = <R>(database: DatabaseSync, sql: string, text: string, run: () => R, said: (result: R) => string): R => {
    const link = linkOf(database);
    if (link === undefined) return run();
    if (isQuiet(sql)) return quietly(database, link, sql, run);
    ask({ say: 'ask', connection: link.number, text });
    for (;;) {
      try {
        const result = run();
        link.engaged = database.isTransaction;
        ask({ say: 'did', text: said(result), failed: false });
        return result;
      } catch (error) {
        link.engaged &&= database.isTransaction;
        if (waits(link, sql, error) && ask({ say: 'waits' }) === 'again') continue;
        ask({ say: 'did', text: errorText(error), failed: true });
        throw error;
      }
    }
  };

  DatabaseSync.prototype.exec = function (sql) {
    if (linkOf(this) === undefined) return native.exec.call(this, sql);
    for (const one of statementsIn(sql)) {
      held(
        this,
        one,
        withParameters(one, []),
        () => native.exec.call(this, one),
        () => (this.isOpen ? resultOf(one, changesIn(this)) : ''),
      );
    }
  };
  DatabaseSync.prototype.prepare = function (...args) {
    const statement = native.prepare.apply(this, args);
    owners.set(statement, this);
    return statement;
  };
  const patch = <Name extends 'run' | 'get' | 'all'>(name: Name, said: (sql: string, result: any) => string) => {
    const original = native[name] as (...parameters: any[]) => any;
    StatementSync.prototype[name] = function (this: StatementSync, ...parameters: any[]) {
      const database = owners.get(this);
      if (database === undefined) return original.apply(this, parameters);
      const sql = this.sourceSQL;
      const run = () => original.apply(this, parameters);
      return held(database, sql, withParameters(sql, parameters), run, result => said(sql, result));
    };
  };
  patch('run', (sql, { changes }) => resultOf(sql, Number(changes)));
  patch('get', (sql, row) => resultOf(sql, row === undefined ? 0 : 1));
  patch('all', (sql, rows) => resultOf(sql, rows.length));
  // All rows at once: a cursor that stays open over other statements would hold its lock where nobody sees it.
  StatementSync.prototype.iterate = function (...parameters: any[]) {
    return (this.all as (...values: any[]) => any[])(...parameters).values() as any;
  };
  refuse(DatabaseSync.prototype, 'createTagStore', () => ungated('a tag store of node:sqlite'));
  refuse(DatabaseSync.prototype, 'applyChangeset', () => ungated('a changeset of node:sqlite'));
  const { dlopen } = process;
  process.dlopen = function (...args: Parameters<typeof dlopen>) {
    if (/sqlite|libsql/i.test(String(args[1]))) ungated('another SQLite than node:sqlite');
    return dlopen.apply(this, args);
  };
  return () => {
    holds = true;
  };
}

/**
 * Whether a statement that met a lock would have gone on waiting. SQLite waits only where nothing is held yet, or at a COMMIT:
 * who has read and now wants to write would wait for somebody who may wait for him.
 */
function waits({ limitMs, engaged }: Link, sql: string, error: unknown): boolean {
  return isBusy(error) && limitMs > 0 && (!engaged || /^(?:COMMIT|END|RELEASE)$/.test(verbOf(sql)));
}

function quietly<R>(database: DatabaseSync, link: Link, sql: string, run: () => R): R {
  const result = run();
  if (/\bbusy_timeout\s*[=(]/i.test(sql)) {
    link.limitMs = limitOf(database);
    native.exec.call(database, 'PRAGMA busy_timeout = 0');
  }
  return result;
}

function limitOf(database: DatabaseSync): number {
  return numberOf(database, 'PRAGMA busy_timeout', 'timeout');
}

function changesIn(database: DatabaseSync): number {
  return numberOf(database, 'SELECT changes() AS n', 'n');
}

function numberOf(database: DatabaseSync, sql: string, column: string): number {
  const statement = native.prepare.call(database, sql);
  const row = (native.get as (this: StatementSync) => Record<string, unknown>).call(statement);
  return Number(row[column]);
}

/** As PostgreSQL says it: `UPDATE 1`. */
function resultOf(sql: string, rows: number): string {
  const verb = verbOf(sql);
  return /^(?:INSERT|UPDATE|DELETE|REPLACE|SELECT)$/.test(verb) ? `${verb} ${rows}` : verb;
}

function refuse(owner: object, name: string, say: () => void): void {
  const methods = owner as Record<string, ((...args: unknown[]) => unknown) | undefined>;
  const original = methods[name];
  if (original === undefined) return;
  methods[name] = function (this: unknown, ...args: unknown[]) {
    say();
    return original.apply(this, args);
  };
}
