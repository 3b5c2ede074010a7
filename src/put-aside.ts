import type { Cause } from './dead-letter.ts';
import { setAside } from './decide.ts';
import type { Entry } from './entry.ts';
import type { Path, Scope } from './path.ts';
import { setAsideRefused } from './under-lease.ts';

/** Makes a dead letter of a message that has not been claimed, on either kind of store, if that still stands. */
export function putAside(path: Path, scope: Scope, entry: Entry, cause: Cause): Promise<void> {
  if (path.store.promise === 'exactly-once') return setAside(path, path.store.inbox, scope, entry, cause);
  return setAsideRefused(path, path.store.inbox, entry, cause);
}
