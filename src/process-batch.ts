import { backoffMs } from './core/backoff.ts';
import { splitFollowers } from './core/followers.ts';
import { mayAck } from './core/verdict.ts';
import type { Cause } from './dead-letter.ts';
import { conflictCause, setAside } from './decide.ts';
import { type Batch, type Entry, isReady, type ReadyEntry, undecided } from './entry.ts';
import { assertKnownTypes, identify } from './identify.ts';
import { type Path, reach, type Scope } from './path.ts';
import { setAsideRefused, underLease } from './under-lease.ts';
import { withinTransaction } from './within-transaction.ts';

/**
 * The middle of the path: identify, claim, handle, record. Gives each entry of the batch its verdict, except for those
 * that the stop came before. Rejects when the store is down or gone wrong: whatever has a verdict by then keeps it, and
 * calling again with the same batch goes on with the rest.
 */
export async function processBatch(path: Path, scope: Scope, batch: Batch): Promise<void> {
  batch.entries ??= await identify(path, batch.deliveries);
  assertKnownTypes(path, batch.entries);
  await reach(path, scope, 'identify', 'after', batch.entries);

  while (undecided(batch).length > 0 && !scope.stopping.aborted) {
    const refused = undecided(batch).filter(entry => entry.refusal !== undefined);
    for (const entry of refused) await refuse(path, scope, entry);

    const ready = undecided(batch).filter(isReady);
    const { firsts, followersOf } = splitFollowers(ready, entry => entry.claim.hex);
    if (path.store.promise === 'exactly-once') await withinTransaction(path, path.store.inbox, scope, firsts);
    else await underLease(path, path.store.inbox, scope, firsts);

    for (const [first, followers] of followersOf) await decideFollowers(path, scope, first, followers);
    await waitForOwners(path, scope, [...refused, ...firsts]);
  }
}

/** What was refused before its claim is set aside, or ignored where the consumer chose that for types it does not know. */
async function refuse(path: Path, scope: Scope, entry: Entry): Promise<void> {
  if (entry.refusal!.kind === 'unknown-type' && path.onUnknownType === 'ignore') {
    entry.verdict = { verdict: 'ignored' };
    path.warn('NT_UNKNOWN_TYPE', `${path.consumer}: ${entry.refusal!.reason}; such messages are ignored`);
    return;
  }
  await putAside(path, scope, entry, entry.refusal!);
}

function putAside(path: Path, scope: Scope, entry: Entry, cause: Cause): Promise<void> {
  if (path.store.promise === 'exactly-once') return setAside(path, path.store.inbox, scope, entry, cause);
  return setAsideRefused(path, path.store.inbox, entry, cause);
}

/** Copies behind the first of their id: duplicates once it is done. If it was set aside or not done, they are claimed anew. */
async function decideFollowers(path: Path, scope: Scope, first: ReadyEntry, followers: readonly ReadyEntry[]): Promise<void> {
  const { verdict } = first;
  if (verdict?.verdict === 'retry-later' || verdict?.verdict === 'busy') for (const entry of followers) entry.verdict = verdict;
  if (verdict?.verdict !== 'processed' && verdict?.verdict !== 'duplicate') return;
  for (const entry of followers) {
    const [stored, offered] = [first.claim.fingerprint, entry.claim.fingerprint];
    if (verdict.verdict === 'processed' && (stored === undefined || stored === offered)) {
      path.counts.duplicates++;
      entry.verdict = { verdict: 'duplicate', cause: 'in-batch', at: undefined };
    } else if (stored !== undefined && offered !== undefined && stored !== offered && path.policy.onConflict === 'dead-letter') {
      await putAside(path, scope, entry, conflictCause({ stored, offered }));
    }
    // Anything else asks the store, which compares with what it has.
  }
}

/** Live owners are waited for, with jitter and a bound; then the message is handed back, never acked. */
async function waitForOwners(path: Path, scope: Scope, tried: readonly Entry[]): Promise<void> {
  const open = tried.filter(entry => entry.verdict === undefined);
  if (open.length === 0 || scope.stopping.aborted) return;
  const now = path.clock.monotonicMs();
  let waited = 0;
  for (const entry of open) {
    entry.busySince ??= now;
    waited = Math.max(waited, now - entry.busySince);
    if (now - entry.busySince >= scope.busyWaitMs) entry.verdict = { verdict: 'busy' };
  }
  if (open.every(entry => entry.verdict !== undefined)) return;
  // From 10 ms up to a second: most owners are done within milliseconds, and one that hangs must not be polled hot.
  const polls = Math.log2(1 + waited / 20);
  await path.clock.sleep(backoffMs(Math.ceil(polls), { minMs: 20, maxMs: 1_000 }, path.clock.random()), scope.stopping);
}

/** Deliveries whose source may forget them now. */
export function ackable(batch: Batch): readonly Entry[] {
  return (batch.entries ?? []).filter(entry => mayAck(entry.verdict));
}
