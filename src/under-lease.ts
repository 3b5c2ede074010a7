import { backoffMs } from './core/backoff.ts';
import { WorkList } from './core/work-list.ts';
import { type Cause, deadLetterFor } from './dead-letter.ts';
import { conflictCause, verdictOf } from './decide.ts';
import { effectsAround } from './effects/surroundings.ts';
import type { Entry, ReadyEntry } from './entry.ts';
import { describeError, isNevertwiceError, isOutage, type Reject } from './errors.ts';
import { type Held, Leases } from './leases.ts';
import { type Path, reach, type Scope } from './path.ts';
import type { LeaseGrant, LeaseInbox } from './ports/store.ts';
import { Contended } from './ports/store.ts';
import { Recorder } from './recorder.ts';
import { countFailure, retryLater } from './retries.ts';
import { HandlerFailed, runHandlers, type Surroundings } from './run-handlers.ts';
import { handleUnprotected, processedUnprotected } from './unprotected.ts';

/**
 * Claim, handle and complete against a token, for effects that live outside the store. The one place where an effect can
 * happen twice: the handler is done and `complete` is not recorded yet. Sets verdicts, or leaves them open when busy.
 */
export async function underLease(
  path: Path,
  inbox: LeaseInbox,
  scope: Scope,
  entries: readonly ReadyEntry[],
): Promise<void> {
  // First what was done before an outage and could not be recorded: claimed again it would be done again.
  await record(
    path,
    inbox,
    entries.filter(entry => entry.unrecorded !== undefined),
  );
  const work = new WorkList(entries.filter(entry => entry.verdict === undefined));
  for (let group = work.take(); group !== undefined; group = work.take()) {
    if (scope.stopping.aborted) return;
    const sentMs = path.clock.monotonicMs();
    let held: Map<ReadyEntry, Held>;
    try {
      held = await claimFresh(path, inbox, scope, group);
    } catch (error) {
      if (path.policy.onStoreDown !== 'process' || !isNevertwiceError(error, 'NT_STORE_DOWN')) throw error;
      const open = group.filter(entry => entry.verdict === undefined);
      await handleUnprotected(path, scope, open, error);
      continue;
    }
    await handleHeld(path, inbox, scope, held, sentMs, work);
  }
}

/** Claims; verdicts for what is not fresh; what is, with its proof of ownership. */
export async function claimFresh(
  path: Path,
  inbox: LeaseInbox,
  scope: Scope,
  group: readonly ReadyEntry[],
): Promise<Map<ReadyEntry, Held>> {
  await reach(path, scope, 'claim', 'before', group);
  const grants = await inbox.claim(
    group.map(entry => entry.claim),
    path.policy.leaseMs,
  );
  await reach(path, scope, 'claim', 'after', group);
  const held = new Map<ReadyEntry, Held>();
  for (const [i, entry] of group.entries()) {
    const { answer, nonce, token } = grants[i]!;
    if (answer.answer === 'fresh') held.set(entry, { claim: entry.claim, nonce: nonce!, token: token! });
  }
  try {
    for (const [i, entry] of group.entries()) if (!held.has(entry)) await heldOrDecided(path, inbox, entry, grants[i]!);
    if (path.policy.deadLetter === 'key') await setBehind(path, inbox, held);
  } catch (error) {
    // Nobody would work on what was granted beside it until the leases run out, ourselves included.
    await inbox.release([...held.values()]).catch(() => undefined);
    throw error;
  }
  return held;
}

async function heldOrDecided<E extends Entry>(
  path: Path,
  inbox: LeaseInbox,
  entry: E,
  grant: LeaseGrant,
): Promise<Held | undefined> {
  const { answer, nonce, token } = grant;
  if (answer.answer === 'fresh') return { claim: entry.claim!, nonce: nonce!, token: token! };
  if (answer.answer === 'conflict' && path.policy.onConflict === 'dead-letter') {
    await inbox.deadLetter([deadLetterFor(path, entry, conflictCause(answer))]);
  }
  entry.verdict = verdictOf(path, entry, answer);
  return undefined;
}

async function handleHeld(
  path: Path,
  inbox: LeaseInbox,
  scope: Scope,
  held: Map<ReadyEntry, Held>,
  sentMs: number,
  work: WorkList<ReadyEntry>,
): Promise<void> {
  const entries = [...held.keys()];
  if (entries.length === 0) return;
  const leases = new Leases(path, inbox, held, sentMs);
  const recorder = new Recorder<ReadyEntry>(done => {
    leases.completing(done);
    return record(path, inbox, done);
  });
  const release = (some: readonly ReadyEntry[]) =>
    inbox.release(
      some
        .filter(e => e.verdict === undefined && e.unrecorded === undefined && !leases.isLost(e))
        .map(e => held.get(e)!),
    );
  try {
    await reach(path, scope, 'handle', 'before', entries);
    const handled = await runHandlers(path, scope, entries, surroundings(path, scope, inbox, held, leases, recorder));
    await recorder.ended();
    leases.end();
    await reach(path, scope, 'handle', 'after', entries);
    await release(handled.cut);
    work.pushFront(handled.cut);
  } catch (thrown) {
    const error = thrown instanceof HandlerFailed ? thrown.error : thrown;
    // A handler that was cut off may still be running and would meet the next owner: its lease runs out by itself.
    const lost = isNevertwiceError(error, 'NT_LEASE_LOST') && leases.lost;
    const stillRunning =
      lost || isNevertwiceError(error, 'NT_HANDLER_TIMEOUT') || isNevertwiceError(error, 'NT_STOPPED');
    const blamed = thrown instanceof HandlerFailed ? thrown.entry : undefined;
    // A store that is down fails the next call too, which is on the way to where it is waited for.
    await recorder.ended().catch(() => undefined);
    // Before anything is given up: a renewal would find that it is not ours any more.
    leases.end();
    await release(stillRunning ? entries.filter(entry => blamed !== undefined && entry !== blamed) : entries);
    // An effect of it is in other hands: it is as busy as if its claim were.
    if (error instanceof Contended) {
      for (const entry of entries) if (entry !== blamed && entry.verdict === undefined) work.pushFront([entry]);
      return;
    }
    if (lost) {
      // The next round asks what became of it; its neighbours go on at once.
      if (blamed !== undefined)
        work.pushFront(entries.filter(entry => entry !== blamed && entry.verdict === undefined));
      return;
    }
    if (!(thrown instanceof HandlerFailed) || isOutage(error) || isNevertwiceError(error, 'NT_STOPPED')) throw error;
    await afterFailure(
      path,
      inbox,
      scope,
      entries.filter(entry => entry.verdict === undefined),
      thrown,
      work,
    );
  } finally {
    leases.end();
  }
}

function surroundings(
  path: Path,
  scope: Scope,
  inbox: LeaseInbox,
  held: ReadonlyMap<ReadyEntry, Held>,
  leases: Leases,
  recorder: Recorder<ReadyEntry>,
): Surroundings {
  const effects = effectsAround(path, scope);
  return {
    context: (signal, entry) => {
      const effect = effects.effectOf(signal, entry);
      return entry === undefined ? { signal, effect } : { signal, effect, token: held.get(entry)!.token };
    },
    ...effects.ended,
    forMessage: entry => ({ token: held.get(entry)!.token }),
    cutOff: () => undefined,
    full: () => !leases.lasting || recorder.failed,
    started: cutOff => leases.onLost(cutOff),
    // At once and handler by handler: what is done and not recorded is what a crash, or the failure of another handler
    // in the group, would double.
    done: async (results, rejected) => {
      for (const [entry, result] of results) {
        entry.unrecorded = { nonce: held.get(entry)!.nonce, result: path.keepsResults ? result : undefined };
      }
      recorder.add(results.map(([entry]) => entry));
      for (const [entry, reason] of rejected) {
        await setAside(path, inbox, entry, held.get(entry)!, { kind: 'rejected', reason });
      }
    },
  };
}

/** Completes what handlers have done. When the store fails, the entries remember it for the next time. */
async function record(path: Path, inbox: LeaseInbox, entries: readonly ReadyEntry[]): Promise<void> {
  if (entries.length === 0) return;
  let recorded: readonly boolean[];
  try {
    recorded = await inbox.complete(entries.map(entry => ({ claim: entry.claim, ...entry.unrecorded! })));
  } catch (error) {
    if (path.policy.onStoreDown !== 'process' || !isNevertwiceError(error, 'NT_STORE_DOWN')) throw error;
    for (const entry of entries) {
      if (entry.verdict === undefined) processedUnprotected(path, entry, entry.unrecorded!.result);
    }
    return;
  }
  for (const [i, entry] of entries.entries()) {
    const { result } = entry.unrecorded!;
    entry.unrecorded = undefined;
    // Lost: another owner has the message now. It is not acked by us; claiming it again tells what became of it. And what
    // a handler completed after its time limit may have been decided already.
    if (!recorded[i] || entry.verdict !== undefined) continue;
    path.counts.processed++;
    entry.verdict = { verdict: 'processed', result };
  }
}

async function afterFailure(
  path: Path,
  inbox: LeaseInbox,
  scope: Scope,
  group: readonly ReadyEntry[],
  failed: HandlerFailed,
  work: WorkList<ReadyEntry>,
): Promise<void> {
  const blamed = failed.entry ?? (group.length === 1 ? group[0] : undefined);
  if (blamed === undefined) return work.halve(group);
  const { error } = failed;
  if (isNevertwiceError(error, 'NT_REJECTED')) {
    await setAside(path, inbox, blamed, undefined, { kind: 'rejected', reason: (error as Reject).reason, error });
    return work.pushFront(group.filter(entry => entry !== blamed));
  }
  if (countFailure(path, scope, blamed)) {
    await path.clock.sleep(backoffMs(blamed.failures, path.policy.backoff, path.clock.random()), scope.stopping);
    return work.pushFront(group);
  }
  const kept = path.circuit?.holds(blamed, error);
  if (kept !== undefined) throw kept;
  if (scope.canRetryLater(blamed)) blamed.verdict = retryLater(path, blamed, error);
  else await setAside(path, inbox, blamed, undefined, { kind: 'attempts', reason: describeError(error), error });
  work.pushFront(group.filter(entry => entry !== blamed));
}

/** Writes the dead letter first and gives the claim up after it: a crash in between repeats the letter, never loses it. */
async function setAside(
  path: Path,
  inbox: LeaseInbox,
  entry: Entry,
  held: Held | undefined,
  cause: Cause,
): Promise<void> {
  await inbox.deadLetter([deadLetterFor(path, entry, cause)]);
  if (held !== undefined) await inbox.release([held]);
  path.counts.deadLetters++;
  entry.verdict = { verdict: 'dead-lettered', kind: cause.kind, reason: cause.reason };
}

async function setBehind(path: Path, inbox: LeaseInbox, held: Map<ReadyEntry, Held>): Promise<void> {
  const blocked = await inbox.blockedKeys([...new Set([...held.keys()].flatMap(entry => entry.key ?? []))]);
  for (const [entry, proof] of held) {
    if (entry.key === undefined || !blocked.has(entry.key)) continue;
    await setAside(path, inbox, entry, proof, { kind: 'behind', reason: 'waits behind a dead letter of the same key' });
    held.delete(entry);
  }
}

/** Sets aside a message that was refused before its claim, unless somebody did it in the meantime. */
export async function setAsideRefused(path: Path, inbox: LeaseInbox, entry: Entry, cause: Cause): Promise<void> {
  if (entry.claim === undefined) return setAside(path, inbox, entry, undefined, cause);
  const [grant] = await inbox.claim([entry.claim], path.policy.leaseMs);
  const held = await heldOrDecided(path, inbox, entry, grant!);
  if (held !== undefined) await setAside(path, inbox, entry, held, cause);
}
