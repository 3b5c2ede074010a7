import { type Claimed, handleClaimed, recordVerdicts } from './attempt.ts';
import { splitFollowers } from './core/followers.ts';
import { deadLetterFor } from './dead-letter.ts';
import { conflictCause, verdictOf } from './decide.ts';
import { type Entry, isReady, type ReadyEntry } from './entry.ts';
import { NevertwiceError } from './errors.ts';
import type { Path, Scope } from './path.ts';
import { Contended, type TransactionalInbox } from './ports/store.ts';
import { HandlerFailed } from './run-handlers.ts';

/**
 * Claim and handle in a transaction that the caller has open. Nothing is retried and nothing committed: the verdicts hold
 * once the caller commits. Dead letters (a refused id, a conflict) are written into the caller's transaction too.
 * Rejects with the handler's own error, or NT_BUSY: the caller must roll back.
 */
export async function joinTransaction(path: Path, scope: Scope, tx: unknown, entries: readonly Entry[]): Promise<void> {
  const inbox = path.store.inbox as TransactionalInbox<unknown>;
  const { firsts, followersOf } = splitFollowers(entries.filter(isReady), entry => entry.claim.hex);
  try {
    await inbox.within(
      tx,
      firsts.map(entry => entry.claim),
      async unit => {
        const done: Claimed = await handleClaimed(path, scope, firsts, unit);
        const conflicts = recordVerdicts(path, firsts, done);
        for (const [first, copies] of followersOf)
          for (const copy of copies) copy.verdict = followerVerdict(path, first, copy);
        const refused = entries.filter(entry => entry.refusal !== undefined);
        const differing = [...followersOf.values()]
          .flat()
          .flatMap(copy => (copy.verdict?.verdict === 'conflict' ? { entry: copy, answer: copy.verdict } : []));
        const setAside = path.policy.onConflict === 'dead-letter' ? [...conflicts, ...differing] : [];
        await unit.deadLetter([
          ...refused.map(entry => deadLetterFor(entry, entry.refusal!)),
          ...setAside.map(({ entry, answer }) => deadLetterFor(entry, conflictCause(answer))),
        ]);
        for (const { entry, answer } of conflicts) entry.verdict = verdictOf(path, entry, answer);
        for (const entry of refused) entry.verdict = { verdict: 'dead-lettered', ...entry.refusal! };
      },
    );
  } catch (error) {
    if (error instanceof Contended) {
      throw new NevertwiceError(
        'NT_BUSY',
        'a live owner is working on one of these messages; roll back and do not ack',
        { cause: error },
      );
    }
    throw error instanceof HandlerFailed ? error.error : error;
  }
}

function followerVerdict(path: Path, first: ReadyEntry, copy: ReadyEntry): Entry['verdict'] {
  const [stored, offered] = [first.claim.fingerprint, copy.claim.fingerprint];
  if (stored !== undefined && offered !== undefined && stored !== offered && path.policy.onConflict !== 'accept') {
    return { verdict: 'conflict', stored, offered, deadLettered: path.policy.onConflict === 'dead-letter' };
  }
  return first.verdict?.verdict === 'processed'
    ? { verdict: 'duplicate', cause: 'in-batch', at: undefined }
    : first.verdict;
}
