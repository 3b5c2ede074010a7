import { backoffMs } from './core/backoff.ts';
import { classifyFailure } from './core/failures.ts';
import { type Cause, deadLetterFor } from './dead-letter.ts';
import { claimsOf, type Entry } from './entry.ts';
import { isNevertwiceError } from './errors.ts';
import { holdLetters } from './letter-in-hand.ts';
import type { Path, Scope } from './path.ts';
import { type Answer, Contended, type TransactionalInbox, type Unit } from './ports/store.ts';

type Conflict = { readonly stored: string; readonly offered: string };

/**
 * Sets a message aside, in a transaction of its own: the handler's is rolled back by now, so another owner may have done
 * the message since. It is claimed again, and only if the answer still stands is the dead letter written; the claim's own
 * row goes in the same transaction, since the message is not done. Sets the verdict, or leaves it open when busy.
 */
export async function setAside(
  path: Path,
  inbox: TransactionalInbox<any>,
  scope: Scope,
  entry: Entry,
  cause: Cause,
): Promise<void> {
  for (let lostRaces = 0; ; ) {
    try {
      await scope.position?.settleDoubt();
      return await decide(path, inbox, scope, entry, cause);
    } catch (error) {
      if (isNevertwiceError(error, 'NT_COMMIT_UNKNOWN')) scope.position?.doubt();
      // The letter is upserted under its own key, so a commit that may have landed is simply done again.
      if (error instanceof Contended) return;
      const again = isNevertwiceError(error, 'NT_COMMIT_UNKNOWN') || classifyFailure(error) === 'transient';
      if (!again || ++lostRaces > path.policy.transientRetries || scope.abort.aborted) throw error;
      await path.clock.sleep(backoffMs(lostRaces, { minMs: 10, maxMs: 1_000 }, path.clock.random()), scope.abort);
    }
  }
}

async function decide(
  path: Path,
  inbox: TransactionalInbox<any>,
  scope: Scope,
  entry: Entry,
  cause: Cause,
): Promise<void> {
  if (scope.position?.covers(entry)) {
    // A commit that was never confirmed has landed: the letter is there.
    entry.verdict = asideVerdict(path, entry, cause, undefined);
    return;
  }
  const options = { budgetMs: path.policy.timeoutMs, overlap: false };
  const { answer, move } = await inbox.transaction(claimsOf(path, [entry]), options, async unit => {
    await holdLetters(unit, [entry]);
    const written = await writeAside(path, unit, entry, cause);
    // Done by nobody after all, although it was found to be a conflict: it is claimed anew, and not passed over.
    const open = written?.answer === 'busy' || (written?.answer === 'fresh' && !stands(cause, written));
    const decided = open ? [] : [entry];
    const moving = scope.position?.move(decided);
    if (moving !== undefined) await unit.advance(moving);
    return { answer: written, move: moving };
  });
  if (move !== undefined) scope.position?.moved(move);
  entry.verdict = verdictAside(path, entry, cause, answer);
}

/** The inside of such a transaction, with the entry claimed. What it returns makes the verdict once that is committed. */
export async function writeAside(
  path: Path,
  unit: Unit<unknown>,
  entry: Entry,
  cause: Cause,
): Promise<Answer | undefined> {
  const [answer] = await unit.answers();
  if (stands(cause, answer)) {
    if (unit.fresh[0]) await unit.unclaim([0]);
    await unit.deadLetter([deadLetterFor(path, entry, cause)]);
  } else if (unit.fresh[0]) {
    await unit.unclaim([0]);
  } else if (answer?.answer === 'conflict' && path.policy.onConflict === 'dead-letter') {
    await unit.deadLetter([deadLetterFor(path, entry, conflictCause(answer))]);
  }
  return answer;
}

export function verdictAside(path: Path, entry: Entry, cause: Cause, answer: Answer | undefined): Entry['verdict'] {
  return stands(cause, answer) ? asideVerdict(path, entry, cause, answer) : verdictOf(path, entry, answer);
}

/** Without an id there is nothing to claim; a conflict stands while it is one; everything else while nobody did it. */
function stands(cause: Cause, answer: Answer | undefined): boolean {
  if (answer === undefined) return true;
  return cause.kind === 'conflict' ? answer.answer === 'conflict' : answer.answer === 'fresh';
}

function asideVerdict(path: Path, entry: Entry, cause: Cause, answer: Answer | undefined): Entry['verdict'] {
  if (answer?.answer === 'conflict') {
    path.counts.conflicts++;
    warnConflict(path, entry, answer);
    return { verdict: 'conflict', stored: answer.stored, offered: answer.offered, deadLettered: true };
  }
  path.counts.deadLetters++;
  return { verdict: 'dead-lettered', kind: cause.kind, reason: cause.reason };
}

/** The verdict that a claim's answer alone decides; undefined for `fresh` and `busy`, and for a conflict to be set aside. */
export function verdictOf(path: Path, entry: Entry, answer: Answer | undefined): Entry['verdict'] {
  if (answer?.answer === 'duplicate') {
    path.counts.duplicates++;
    const cause = entry.unknownCommits > 0 ? 'commit-unknown' : 'completed';
    return {
      verdict: 'duplicate',
      cause,
      at: answer.at,
      ...(answer.result === undefined ? {} : { result: answer.result }),
    };
  }
  if (answer?.answer !== 'conflict') return undefined;
  if (path.policy.onConflict === 'accept') {
    path.counts.duplicates++;
    return { verdict: 'duplicate', cause: 'completed', at: undefined };
  }
  path.counts.conflicts++;
  warnConflict(path, entry, answer);
  return {
    verdict: 'conflict',
    stored: answer.stored,
    offered: answer.offered,
    deadLettered: path.policy.onConflict === 'dead-letter',
  };
}

function warnConflict(path: Path, { delivery }: Entry, answer: Conflict): void {
  const where = delivery.position === undefined ? '' : `, at ${delivery.position}`;
  path.warn('NT_CONFLICT', `${path.consumer}: ${conflictCause(answer).reason}${where}`);
}

export function conflictCause(answer: Conflict): Cause {
  return {
    kind: 'conflict',
    reason: `the same id was processed with another payload (fingerprint ${answer.stored}, this one ${answer.offered})`,
  };
}
