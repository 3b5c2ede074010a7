import { NevertwiceError } from '../../errors.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';

/** The tables of the store, by what they hold. */
export type TableRole =
  | 'inbox'
  | 'consumers'
  | 'deadLetters'
  | 'positions'
  | 'lanes'
  | 'outbox'
  | 'relays'
  | 'effects'
  | 'attempts'
  | 'laneOwners'
  | 'migrations';

export interface SqliteOptions {
  /** What the names of the tables start with. Default `nevertwice_`. */
  readonly tablePrefix?: string;
  /** Full names for single tables, without the prefix. Default: prefix and `inbox`, `consumers`, `dead_letters`, … */
  readonly tables?: Partial<Record<TableRole, string>>;
  /**
   * Longest wait for another process that holds the write lock, in milliseconds. The wait never blocks the event loop;
   * when it is over, the transaction rejects with NT_STORE_DOWN. Default 10,000.
   */
  readonly busyTimeoutMs?: number;
  /** `auto` creates and upgrades the tables at the first start; `check` only refuses what does not fit. Default `auto`. */
  readonly migrate?: 'auto' | 'check';
  /** Time and chance of the retries; for tests. Default: the system's. */
  readonly clock?: Clock;
}

/** How an ORM or query builder sits on the database object. */
export interface Wrapping<Db, Tx> {
  /** Makes the user's own handle from the database object of one transaction. Called once a transaction, when used. */
  readonly wrap: (database: Db) => Tx;
  /** The database object under a handle; for `within`. */
  readonly unwrap: (tx: Tx) => Db;
}

/** Table names, quoted for use in SQL, and as they are for use as values. */
export interface Names {
  readonly quoted: Readonly<Record<TableRole | 'readable', string>>;
  readonly plain: Readonly<Record<TableRole | 'readable', string>>;
}

export interface Settings {
  readonly names: Names;
  readonly busyTimeoutMs: number;
  readonly migrate: 'auto' | 'check';
  readonly clock: Clock;
}

const DEFAULT_NAMES: Readonly<Record<TableRole, string>> = {
  inbox: 'inbox',
  consumers: 'consumers',
  deadLetters: 'dead_letters',
  positions: 'positions',
  lanes: 'lanes',
  outbox: 'outbox',
  relays: 'outbox_relays',
  effects: 'effects',
  attempts: 'attempts',
  laneOwners: 'lane_owners',
  migrations: 'migrations',
};

export function tableNames(options: Pick<SqliteOptions, 'tablePrefix' | 'tables'>): Names {
  const prefix = options.tablePrefix ?? 'nevertwice_';
  const roles = Object.keys(DEFAULT_NAMES) as TableRole[];
  const unknown = Object.keys(options.tables ?? {}).find(role => !(role in DEFAULT_NAMES));
  if (unknown !== undefined) {
    throw new NevertwiceError('NT_CONFIG', `tables.${unknown} is no table of the store; there are ${roles.join(', ')}`);
  }
  const tables = Object.fromEntries(
    roles.map(role => [role, options.tables?.[role] ?? `${prefix}${DEFAULT_NAMES[role]}`]),
  ) as Record<TableRole, string>;
  const plain = { ...tables, readable: `${tables.inbox}_readable` };
  // SQLite compares names without regard to ASCII case.
  if (new Set(Object.values(plain).map(name => name.toLowerCase())).size < Object.keys(plain).length) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `two tables of the store have the same name: ${Object.values(plain).join(', ')}`,
    );
  }
  const quoted = Object.fromEntries(Object.entries(plain).map(([role, name]) => [role, quoteIdentifier(name)]));
  return { plain, quoted: quoted as Names['quoted'] };
}

export function settings(options: SqliteOptions): Settings {
  const busyTimeoutMs = options.busyTimeoutMs ?? 10_000;
  if (!Number.isFinite(busyTimeoutMs) || busyTimeoutMs < 0) {
    throw new NevertwiceError('NT_CONFIG', `busyTimeoutMs is ${busyTimeoutMs}; give milliseconds, 0 or more`);
  }
  const migrate = options.migrate ?? 'auto';
  if (migrate !== 'auto' && migrate !== 'check') {
    throw new NevertwiceError('NT_CONFIG', `migrate is ${JSON.stringify(migrate)}; give 'auto' or 'check'`);
  }
  return { names: tableNames(options), busyTimeoutMs, migrate, clock: options.clock ?? systemClock };
}
