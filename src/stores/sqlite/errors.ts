import { classifyFailure, failureCode } from '../../core/failures.ts';
import { isNevertwiceError, NevertwiceError } from '../../errors.ts';

const NAMES: ReadonlyMap<string, number> = new Map([
  ['SQLITE_ERROR', 1],
  ['SQLITE_CORRUPT', 11],
  ['SQLITE_CANTOPEN', 14],
  ['SQLITE_NOTADB', 26],
]);

export const SQLITE_ERROR = 1;
export const SQLITE_CANTOPEN = 14;
/** Damaged, or no database at all. */
export const UNREADABLE: ReadonlySet<number | undefined> = new Set([11, 26]);

/** SQLite's primary result code for the codes that the store tells apart, from any client's error. */
export function primaryCode(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === 'number') return errcode & 0xff;
  if (typeof code !== 'string') return undefined;
  for (const [name, primary] of NAMES) if (code === name || code.startsWith(`${name}_`)) return primary;
  return undefined;
}

/** True for a lock that another connection holds: the same statement can succeed later. */
export function isBusy(error: unknown): boolean {
  return !isNevertwiceError(error) && classifyFailure(error) === 'transient';
}

/** The error of one of the store's own statements, as its port tells it. */
export function storeError(store: string, error: unknown): unknown {
  if (isNevertwiceError(error)) return error;
  const code = failureCode(error) ?? 'no code';
  // Inside a transaction of the store's own the lock is held; only a caller's deferred one can meet it here.
  if (isBusy(error)) {
    return new NevertwiceError(
      'NT_STORE_DOWN',
      `${store} is locked by another connection; begin with BEGIN IMMEDIATE`,
      {
        cause: error,
      },
    );
  }
  if (classifyFailure(error) === 'outage') {
    return new NevertwiceError('NT_STORE_DOWN', `${store} does not work (${code}); nothing was handled, do not ack`, {
      cause: error,
    });
  }
  const primary = primaryCode(error);
  if (UNREADABLE.has(primary)) {
    return new NevertwiceError('NT_SCHEMA', `${store} is no SQLite database or is damaged (${code}); check the path`, {
      cause: error,
    });
  }
  if (primary === SQLITE_ERROR) {
    return new NevertwiceError(
      'NT_SCHEMA',
      `the tables of ${store} are missing or were changed (${code}); open a store on it with migrate: 'auto'`,
      { cause: error },
    );
  }
  return error;
}

/** Runs the store's own statements and tells their errors as `storeError` does. */
export function own<R>(store: string, work: () => R): R {
  try {
    return work();
  } catch (error) {
    throw storeError(store, error);
  }
}
