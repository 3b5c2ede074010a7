import { atMostOnce } from './at-most-once.ts';
import { splitFollowers } from './core/followers.ts';
import { type Batch, type Entry, isReady, type ReadyEntry, undecided } from './entry.ts';
import { assertKnownTypes, identify } from './identify.ts';
import { type Path, reach, type Scope } from './path.ts';
import { catchUp } from './positions/catch-up.ts';
import { decideFollowers, waitForOwners } from './provisional.ts';
import { putAside } from './put-aside.ts';
import { underLease } from './under-lease.ts';
import { withinTransaction } from './within-transaction.ts';

/**
 * The inner half of the path: identify, claim, handle, record. Gives each entry of the batch its verdict, except for those
 * that a stop came before. Rejects when the store is down or gone wrong: whatever has a verdict by then keeps it, and
 * calling again with the same batch goes on with the rest.
 */
export async function processBatch(path: Path, scope: Scope, batch: Batch): Promise<void> {
  batch.entries ??= await identify(path, batch.deliveries);
  assertKnownTypes(path, batch.entries);
  await reach(path, scope, 'identify', 'after', batch.entries);
  scope.position?.work(batch.entries);

  while (undecided(batch).length > 0 && !scope.stopping.aborted) {
    const open = inOrder(path, undecided(batch));
    const refused = open.filter(entry => entry.refusal !== undefined);
    for (const entry of refused) await refuse(path, scope, entry);

    const ready = open.filter(isReady);
    const { firsts, followersOf } = copies(path, ready);
    if (path.store.promise === 'exactly-once') await withinTransaction(path, path.store.inbox, scope, firsts);
    else if (path.mode === 'at-most-once') await atMostOnce(path, path.store.inbox, scope, firsts);
    else await underLease(path, path.store.inbox, scope, firsts);

    for (const [first, followers] of followersOf) await decideFollowers(path, scope, first, followers);
    await waitForOwners(path, scope, [...refused, ...firsts]);
  }
  await catchUp(path, scope);
}

/** Copies of one id inside the batch; where the position tells copies, there are none. */
function copies(path: Path, ready: readonly ReadyEntry[]): ReturnType<typeof splitFollowers<ReadyEntry>> {
  if (path.dedupe === 'position') return { firsts: ready, followersOf: new Map() };
  return splitFollowers(ready, entry => entry.claim.hex);
}

/**
 * What stands before a refused message is done before it is set aside, where dead letters hold up their key, and where
 * the position of the lane says what is done.
 */
function inOrder(path: Path, entries: readonly Entry[]): readonly Entry[] {
  const strict = path.dedupe === 'position';
  if (path.policy.deadLetter !== 'key' && !strict) return entries;
  const next = entries.findIndex(entry => entry.refusal !== undefined && (strict || entry.key !== undefined));
  return next === -1 ? entries : entries.slice(0, Math.max(next, 1));
}

/** What was refused before its claim is set aside, or ignored where the consumer chose that for types it does not know. */
async function refuse(path: Path, scope: Scope, entry: Entry): Promise<void> {
  const refusal = entry.refusal!;
  if (refusal.kind !== 'unknown-type' || path.onUnknownType !== 'ignore') return putAside(path, scope, entry, refusal);
  entry.verdict = { verdict: 'ignored' };
  path.warn('NT_UNKNOWN_TYPE', `${path.consumer}: ${refusal.reason}; such messages are ignored`);
}
