import { attempt } from './attempt.ts';
import { backoffMs } from './core/backoff.ts';
import { WorkList } from './core/work-list.ts';
import { conflictCause, setAside } from './decide.ts';
import type { ReadyEntry } from './entry.ts';
import { describeError, isOutage, NevertwiceError } from './errors.ts';
import type { Path, Scope } from './path.ts';
import type { TransactionalInbox } from './ports/store.ts';
import { countFailure, retryLater } from './retries.ts';

/**
 * Claim, handle and record in one commit. Sets the verdict of each entry, or leaves it open when a live owner has it.
 * Rejects when the store is down; what was decided before that stays decided, so the caller may simply call again.
 */
export async function withinTransaction(
  path: Path,
  inbox: TransactionalInbox<any>,
  scope: Scope,
  entries: readonly ReadyEntry[],
): Promise<void> {
  const work = new WorkList(entries);
  const busyKeys = new Set<string>();
  for (let group = work.take(); group !== undefined; group = work.take()) {
    if (scope.stopping.aborted) return;
    // Behind a message that a live owner still works on, its key waits too.
    const ready = group.filter(entry => entry.key === undefined || !busyKeys.has(entry.key));
    if (ready.length === 0) continue;
    const done = await attempt(path, inbox, scope, ready);
    switch (done.outcome) {
      case 'committed':
        work.pushFront(done.cut);
        work.succeeded();
        for (const { entry, answer } of done.conflicts)
          await setAside(path, inbox, scope, entry, conflictCause(answer));
        break;
      case 'contended':
        if (ready.length > 1) work.halve(ready);
        else if (ready[0]!.key !== undefined) busyKeys.add(ready[0]!.key);
        break;
      case 'unknown':
        // Claiming again waits for the old backend and then tells the truth; a SELECT would see nothing, and then the
        // old commit would land.
        await afterUnknownCommit(path, scope, ready);
        work.pushFront(ready);
        break;
      case 'lost-race':
        await afterLostRace(path, inbox, scope, ready, done, work);
        break;
      case 'failed':
        if (ready.length === 1) await afterFailure(path, inbox, scope, ready[0]!, done.error, work);
        else {
          // It counts as a try, but what follows from it is decided alone: in a shared transaction a statement can fail
          // because of a neighbour.
          if (done.entry !== undefined && !isOutage(done.error)) countFailure(path, scope, done.entry);
          takeApart(ready, done.entry, work);
        }
        break;
      case 'rejected':
        if (ready.length > 1) takeApart(ready, done.entry, work);
        else
          await setAside(path, inbox, scope, ready[0]!, { kind: 'rejected', reason: done.reason, error: done.error });
        break;
    }
  }
}

function takeApart(group: readonly ReadyEntry[], blamed: ReadyEntry | undefined, work: WorkList<ReadyEntry>): void {
  if (blamed === undefined) work.halve(group);
  else work.isolate(group, group.indexOf(blamed));
}

async function afterUnknownCommit(path: Path, scope: Scope, group: readonly ReadyEntry[]): Promise<void> {
  for (const entry of group) entry.unknownCommits++;
  const most = Math.max(...group.map(entry => entry.unknownCommits));
  if (most > path.policy.transientRetries) {
    throw new NevertwiceError(
      'NT_STORE_DOWN',
      `the server did not confirm ${most} commits in a row; the messages are not acked`,
    );
  }
  await path.clock.sleep(backoffMs(most, { minMs: 20, maxMs: 2_000 }, path.clock.random()), scope.abort);
}

/** A deadlock or serialization failure: the same work in a new transaction, a bounded number of times. */
async function afterLostRace(
  path: Path,
  inbox: TransactionalInbox<any>,
  scope: Scope,
  group: readonly ReadyEntry[],
  lost: { readonly error: unknown; readonly entry: ReadyEntry | undefined },
  work: WorkList<ReadyEntry>,
): Promise<void> {
  const blamed = lost.entry ?? (group.length === 1 ? group[0] : undefined);
  for (const entry of blamed === undefined ? group : [blamed]) entry.lostRaces++;
  const races = (blamed ?? group[0]!).lostRaces;
  if (races >= path.policy.transientRetries) {
    if (group.length === 1) {
      group[0]!.lostRaces = 0;
      const tries = `the transaction lost ${races} races in a row: ${describeError(lost.error)}`;
      await afterFailure(path, inbox, scope, group[0]!, new Error(tries, { cause: lost.error }), work);
      return;
    }
    for (const entry of group) if (entry !== blamed) entry.lostRaces = 0;
    takeApart(group, blamed, work);
    return;
  }
  await path.clock.sleep(backoffMs(races, { minMs: 10, maxMs: 2_000 }, path.clock.random()), scope.abort);
  // Whoever keeps losing stands alone: smaller transactions lose fewer races, and the tries of one are its own.
  if (blamed !== undefined && group.length > 1) takeApart(group, blamed, work);
  else work.pushFront(group);
}

/** A failed try: again after a back-off, or handed back to the source, or set aside. */
async function afterFailure(
  path: Path,
  inbox: TransactionalInbox<any>,
  scope: Scope,
  entry: ReadyEntry,
  error: unknown,
  work: WorkList<ReadyEntry>,
): Promise<void> {
  if (!countFailure(path, scope, entry)) {
    const held = path.circuit?.holds(entry, error);
    if (held !== undefined) throw held;
    if (scope.canRetryLater(entry)) entry.verdict = retryLater(path, entry, error);
    else await setAside(path, inbox, scope, entry, { kind: 'attempts', reason: describeError(error), error });
    return;
  }
  await path.clock.sleep(backoffMs(entry.failures, path.policy.backoff, path.clock.random()), scope.stopping);
  work.pushFront([entry]);
}
