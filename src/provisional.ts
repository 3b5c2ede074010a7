import { backoffMs } from './core/backoff.ts';
import { conflictCause } from './decide.ts';
import type { Entry, ReadyEntry } from './entry.ts';
import type { Path, Scope } from './path.ts';
import { putAside } from './put-aside.ts';

/** Copies behind the first of their id: duplicates once it is done. If it was set aside or not done, they are claimed anew. */
export async function decideFollowers(
  path: Path,
  scope: Scope,
  first: ReadyEntry,
  followers: readonly ReadyEntry[],
): Promise<void> {
  const { verdict } = first;
  if (verdict?.verdict === 'retry-later' || verdict?.verdict === 'busy')
    for (const entry of followers) entry.verdict = verdict;
  if (verdict?.verdict !== 'processed' && verdict?.verdict !== 'duplicate') return;
  for (const entry of followers) {
    const [stored, offered] = [first.claim.fingerprint, entry.claim.fingerprint];
    if (verdict.verdict === 'processed' && (stored === undefined || stored === offered)) {
      path.counts.duplicates++;
      entry.verdict = { verdict: 'duplicate', cause: 'in-batch', at: undefined };
    } else if (
      stored !== undefined &&
      offered !== undefined &&
      stored !== offered &&
      path.policy.onConflict === 'dead-letter'
    ) {
      await putAside(path, scope, entry, conflictCause({ stored, offered }));
    }
    // Anything else asks the store, which compares with what it has.
  }
}

/** Live owners are waited for, with jitter and a bound; then the message is handed back, never acked. */
export async function waitForOwners(path: Path, scope: Scope, tried: readonly Entry[]): Promise<void> {
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
