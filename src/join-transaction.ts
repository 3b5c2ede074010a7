import { handleClaimed, recordVerdicts } from './attempt.ts';
import { splitFollowers } from './core/followers.ts';
import { deadLetterFor } from './dead-letter.ts';
import { conflictCause, verdictAside, verdictOf, writeAside } from './decide.ts';
import { claimsOf, type Entry, isReady, type ReadyEntry } from './entry.ts';
import { NevertwiceError } from './errors.ts';
import type { Path, Scope } from './path.ts';
import { Contended, type TransactionalInbox } from './ports/store.ts';
import { HandlerFailed } from './run-handlers.ts';

/**
 * Claim and handle in a transaction that the caller has open. Nothing is retried and nothing committed: the verdicts hold
 * once the caller commits. Dead letters are written into the caller's transaction too. Rejects with the handler's own
 * error, or NT_BUSY: the caller must roll back.
 */
export async function joinTransaction(path: Path, scope: Scope, tx: unknown, entries: readonly Entry[]): Promise<void> {
  const inbox = path.store.inbox as TransactionalInbox<unknown>;
  try {
    for (const entry of entries) if (entry.refusal !== undefined) await putAside(path, inbox, tx, entry);
    let open: readonly ReadyEntry[] = entries.filter(isReady);
    while (open.length > 0) {
      const { firsts, followersOf } = splitFollowers(open, entry => entry.claim.hex);
      await handle(path, inbox, scope, tx, firsts);
      // As everywhere, a copy of what was not done is claimed anew, and one with another payload asks the store.
      open = [...followersOf].flatMap(([first, copies]) => copies.filter(copy => !followed(first, copy)));
    }
  } catch (error) {
    if (error instanceof Contended) throw busy(error);
    throw error instanceof HandlerFailed ? error.error : error;
  }
}

async function putAside(path: Path, inbox: TransactionalInbox<unknown>, tx: unknown, entry: Entry): Promise<void> {
  const cause = entry.refusal!;
  const answer = await inbox.within(tx, claimsOf(path, [entry]), unit => writeAside(path, unit, entry, cause));
  entry.verdict = verdictAside(path, entry, cause, answer);
}

async function handle(
  path: Path,
  inbox: TransactionalInbox<unknown>,
  scope: Scope,
  tx: unknown,
  entries: readonly ReadyEntry[],
): Promise<void> {
  await inbox.within(tx, claimsOf(path, entries), async unit => {
    const done = await handleClaimed(path, scope, entries, unit);
    await unit.sealOutbox();
    const conflicts = recordVerdicts(path, entries, done);
    await unit.deadLetter(conflicts.map(({ entry, answer }) => deadLetterFor(path, entry, conflictCause(answer))));
    for (const { entry, answer } of conflicts) entry.verdict = verdictOf(path, entry, answer);
  });
  if (entries.some(entry => entry.verdict === undefined)) throw busy();
}

/** Gives a copy of what was just done its verdict; false when it has to be claimed itself. */
function followed(first: ReadyEntry, copy: ReadyEntry): boolean {
  const [stored, offered] = [first.claim.fingerprint, copy.claim.fingerprint];
  if (first.verdict?.verdict !== 'processed' || (stored !== undefined && stored !== offered)) return false;
  copy.verdict = { verdict: 'duplicate', cause: 'in-batch', at: undefined };
  return true;
}

function busy(cause?: unknown): NevertwiceError {
  const text = 'a live owner is working on one of these messages; roll back and do not ack';
  return new NevertwiceError('NT_BUSY', text, { cause });
}
