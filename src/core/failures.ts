/**
 * What an error of a store means, by code and never by text: servers speak many languages, and the same words turn up
 * in a handler's own errors. One table for every store.
 *
 * - `transient`: this transaction lost a race; the same work in a new transaction can win.
 * - `contended`: a lock was not to be had within the bound.
 * - `outage`: the store, or the way to it, is not there. Says nothing about the message.
 * - `handler`: everything else; the statement itself is wrong.
 */
export type Failure = 'transient' | 'contended' | 'outage' | 'handler';

const POSTGRES: ReadonlyMap<string, Failure> = new Map<string, Failure>([
  ['40001', 'transient'], // serialization_failure
  ['40P01', 'transient'], // deadlock_detected
  ['55P03', 'contended'], // lock_not_available (lock_timeout)
  ['57P01', 'outage'], // admin_shutdown, pg_terminate_backend
  ['57P02', 'outage'], // crash_shutdown
  ['57P03', 'outage'], // cannot_connect_now
  ['57P05', 'outage'], // idle_session_timeout
  ['25006', 'outage'], // read_only_sql_transaction: this is no longer the primary
  ['F0000', 'outage'], // config_file_error
  ['58000', 'outage'], // system_error
  ['58030', 'outage'], // io_error
  ['53400', 'handler'], // configuration_limit_exceeded: temp_file_limit, which one statement runs into again and again
]);
// Classes: 08 connection exception, 53 insufficient resources (too many connections, disk full, out of memory).
const POSTGRES_OUTAGE_CLASSES: ReadonlySet<string> = new Set(['08', '53']);

const NODE_OUTAGE: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENETDOWN',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT', // a Unix socket that is not there
  // postgres.js
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
]);

// Primary result codes, and the names that other clients give instead. An extended code keeps the primary one in its low
// byte, an extended name begins with the primary one: BUSY_SNAPSHOT is 517.
const SQLITE: readonly { readonly code: number; readonly name: string; readonly failure: Failure }[] = [
  { code: 5, name: 'SQLITE_BUSY', failure: 'transient' },
  { code: 6, name: 'SQLITE_LOCKED', failure: 'transient' },
  { code: 8, name: 'SQLITE_READONLY', failure: 'outage' },
  { code: 10, name: 'SQLITE_IOERR', failure: 'outage' },
  { code: 13, name: 'SQLITE_FULL', failure: 'outage' },
  { code: 14, name: 'SQLITE_CANTOPEN', failure: 'outage' },
];

// MySQL and MariaDB: deadlock, lock wait timeout.
const MYSQL: ReadonlyMap<number, Failure> = new Map<number, Failure>([
  [1213, 'transient'],
  [1205, 'transient'],
]);

/**
 * The class of a database error, found on the error itself or on its `cause`s, since ORMs wrap what the driver threw.
 * `undefined` when nothing on it is a code of a database or of the network.
 */
export function classifyFailure(error: unknown): Failure | undefined {
  for (let e = error, depth = 0; typeof e === 'object' && e !== null && depth < 5; depth++) {
    const found = classifyOne(e as { code?: unknown; errcode?: unknown; errno?: unknown });
    if (found !== undefined) return found;
    e = (e as { cause?: unknown }).cause;
  }
  return undefined;
}

/** The code that `classifyFailure` decided by, for a one-line message; undefined when there is none. */
export function failureCode(error: unknown): string | undefined {
  for (let e = error, depth = 0; typeof e === 'object' && e !== null && depth < 5; depth++) {
    const { code, errcode } = e as { code?: unknown; errcode?: unknown };
    if (typeof errcode === 'number') return `SQLITE ${errcode}`;
    if (typeof code === 'string') return code;
    e = (e as { cause?: unknown }).cause;
  }
  return undefined;
}

function classifyOne(e: { code?: unknown; errcode?: unknown; errno?: unknown }): Failure | undefined {
  const { errcode, code } = e;
  if (typeof errcode === 'number') return SQLITE.find(one => one.code === (errcode & 0xff))?.failure ?? 'handler';
  if (typeof code !== 'string') return undefined;
  if (code.startsWith('SQLITE_')) {
    return SQLITE.find(({ name }) => code === name || code.startsWith(`${name}_`))?.failure ?? 'handler';
  }
  if (NODE_OUTAGE.has(code)) return 'outage';
  if (typeof e.errno === 'number' && code.startsWith('ER_')) return MYSQL.get(e.errno) ?? 'handler';
  if (!/^[0-9A-Z]{5}$/.test(code)) return undefined;
  const known = POSTGRES.get(code);
  if (known !== undefined) return known;
  if (POSTGRES_OUTAGE_CLASSES.has(code.slice(0, 2))) return 'outage';
  // Classes begin with a digit but for these; the rest is an application's own code of five letters.
  return /^(?:[0-9]|F0|HV|P0|XX)/.test(code) ? 'handler' : undefined;
}
