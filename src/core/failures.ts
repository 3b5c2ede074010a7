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

// Primary result codes; an extended code keeps the primary one in its low byte.
const SQLITE: ReadonlyMap<number, Failure> = new Map<number, Failure>([
  [5, 'transient'], // BUSY, BUSY_RECOVERY, BUSY_SNAPSHOT
  [6, 'transient'], // LOCKED
  [8, 'outage'], // READONLY
  [10, 'outage'], // IOERR
  [13, 'outage'], // FULL
  [14, 'outage'], // CANTOPEN
  [23, 'outage'], // AUTH
]);
const SQLITE_NAMES: readonly (readonly [string, number])[] = [
  ['SQLITE_BUSY', 5],
  ['SQLITE_LOCKED', 6],
  ['SQLITE_READONLY', 8],
  ['SQLITE_IOERR', 10],
  ['SQLITE_FULL', 13],
  ['SQLITE_CANTOPEN', 14],
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
  if (typeof e.errcode === 'number') return SQLITE.get(e.errcode & 0xff) ?? 'handler';
  if (typeof e.code !== 'string') return undefined;
  if (e.code.startsWith('SQLITE_')) {
    const named = SQLITE_NAMES.find(([name]) => e.code === name || (e.code as string).startsWith(`${name}_`));
    return named === undefined ? 'handler' : SQLITE.get(named[1]);
  }
  if (NODE_OUTAGE.has(e.code)) return 'outage';
  if (typeof e.errno === 'number' && e.code.startsWith('ER_')) return MYSQL.get(e.errno) ?? 'handler';
  if (/^[0-9A-Z]{5}$/.test(e.code)) {
    const known = POSTGRES.get(e.code);
    if (known !== undefined) return known;
    if (POSTGRES_OUTAGE_CLASSES.has(e.code.slice(0, 2))) return 'outage';
    return /^[0-9]/.test(e.code) || e.code.startsWith('P0') || e.code.startsWith('XX') ? 'handler' : undefined;
  }
  return undefined;
}
