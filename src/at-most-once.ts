import { type Cause, deadLetterFor } from './dead-letter.ts';
import { effectsAround } from './effects/surroundings.ts';
import type { ReadyEntry } from './entry.ts';
import { describeError, isNevertwiceError, type Reject } from './errors.ts';
import type { Held } from './leases.ts';
import { type Path, reach, type Scope } from './path.ts';
import type { LeaseInbox } from './ports/store.ts';
import { HandlerFailed, runHandlers } from './run-handlers.ts';
import { claimFresh } from './under-lease.ts';

/**
 * Marked as done first, handled after it, and never twice: what a crash, a stop or a failing handler interrupts is lost, or
 * done by half. For effects that nobody misses and that must not repeat, such as a reminder. A handler that fails is not
 * tried again; its message becomes a dead letter.
 */
export async function atMostOnce(
  path: Path,
  inbox: LeaseInbox,
  scope: Scope,
  entries: readonly ReadyEntry[],
): Promise<void> {
  const held = new Map<ReadyEntry, Held>();
  for (const entry of entries) if (unmarked.has(entry)) held.set(entry, unmarked.get(entry)!);
  const open = entries.filter(entry => !held.has(entry));
  if (open.length > 0) for (const [entry, proof] of await claimFresh(path, inbox, scope, open)) held.set(entry, proof);
  try {
    await markAndHandle(path, inbox, scope, held);
  } catch (error) {
    for (const [entry, proof] of held) if (entry.verdict === undefined) unmarked.set(entry, proof);
    throw error;
  }
}

/**
 * Claimed, and not known to be marked, because the store went away: it is marked again by the same owner. Claimed anew, what the
 * store has marked would look like a copy, and would be lost although nobody has died.
 */
const unmarked = new WeakMap<ReadyEntry, Held>();

async function markAndHandle(
  path: Path,
  inbox: LeaseInbox,
  scope: Scope,
  held: ReadonlyMap<ReadyEntry, Held>,
): Promise<void> {
  let rest = [...held.keys()];
  while (rest.length > 0 && !scope.stopping.aborted) {
    // One by one where the handler takes one: whatever is marked when the process dies is lost.
    const first = rest[0]!;
    const together = first.route.kind === 'handleBatch' ? rest.filter(entry => entry.route === first.route) : [first];
    rest = rest.filter(entry => !together.includes(entry));
    await reach(path, scope, 'record', 'before', together);
    const marked = await inbox.complete(together.map(entry => held.get(entry)!));
    await reach(path, scope, 'record', 'after', together);
    for (const entry of together) unmarked.delete(entry);
    // Where another owner came first, he decides.
    const own = together.filter((_, i) => marked[i]);
    if (own.length > 0) await handleOnce(path, inbox, scope, own, held);
  }
  if (rest.length > 0) await inbox.release(rest.map(entry => held.get(entry)!));
}

async function handleOnce(
  path: Path,
  inbox: LeaseInbox,
  scope: Scope,
  entries: readonly ReadyEntry[],
  held: ReadonlyMap<ReadyEntry, Held>,
): Promise<void> {
  const token = (entry: ReadyEntry) => ({ token: held.get(entry)!.token });
  const effects = effectsAround(path, scope);
  for (const entry of entries) entry.verdict = { verdict: 'processed', result: undefined };
  try {
    const { results, rejected } = await runHandlers(path, scope, entries, {
      context: (signal, entry) => ({
        signal,
        effect: effects.effectOf(signal, entry),
        ...(entry === undefined ? {} : token(entry)),
      }),
      ...effects.ended,
      forMessage: token,
      cutOff: () => undefined,
      full: () => false,
    });
    path.counts.processed += results.size;
    for (const [entry, result] of results) entry.verdict = { verdict: 'processed', result };
    for (const [entry, reason] of rejected) await setAside(path, inbox, entry, { kind: 'rejected', reason });
  } catch (thrown) {
    if (!(thrown instanceof HandlerFailed)) throw thrown;
    const { error } = thrown;
    path.counts.failed += entries.length;
    const cause = isNevertwiceError(error, 'NT_REJECTED')
      ? { kind: 'rejected' as const, reason: (error as Reject).reason, error }
      : { kind: 'attempts' as const, reason: describeError(error), error };
    for (const entry of entries) await setAside(path, inbox, entry, cause);
  }
}

async function setAside(path: Path, inbox: LeaseInbox, entry: ReadyEntry, cause: Cause): Promise<void> {
  // Before the letter: when the store fails now, the message is lost like any other that is interrupted, not done again.
  entry.verdict = { verdict: 'dead-lettered', kind: cause.kind, reason: cause.reason };
  path.counts.deadLetters++;
  await inbox.deadLetter([deadLetterFor(path, entry, cause)]);
}
