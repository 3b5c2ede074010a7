import { failureCode } from '../../core/failures.ts';
import { NevertwiceError } from '../../errors.ts';
import { primaryCode, SQLITE_ERROR, storeError, UNREADABLE } from '../sqlite/errors.ts';

/** The error of one of the store's statements, as its port tells it. */
export function localError(store: string, error: unknown): unknown {
  const primary = primaryCode(error);
  if (UNREADABLE.has(primary))
    return refused(store, `is damaged or no file of localStore (${failureCode(error)})`, error);
  // The statements are right for the tables that this store makes.
  if (primary === SQLITE_ERROR) return refused(store, `has tables that were changed (${failureCode(error)})`, error);
  return storeError(store, error);
}

/** A file that is not to be used. It is never replaced by an empty one: that is for a person who knows what it means. */
export function refused(store: string, why: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError(
    'NT_CONFIG',
    `${store} ${why}; give another path, or restore it, or move it away with its -wal and -shm: every message is then new again`,
    { cause },
  );
}
