import { classifyFailure } from './core/failures.ts';
import { deadLetterFor } from './dead-letter.ts';
import { verdictOf } from './decide.ts';
import { noEffects } from './effects/ledger.ts';
import { effectsAround } from './effects/surroundings.ts';
import { claimsOf, type ReadyEntry } from './entry.ts';
import { isNevertwiceError, isOutage, NevertwiceError, Reject } from './errors.ts';
import { closeLetters, holdLetters, LetterGone } from './letter-in-hand.ts';
import { Adder } from './outbox/adder.ts';
import { type Path, reach, type Scope } from './path.ts';
import { type Answer, Contended, type TransactionalInbox, type Unit } from './ports/store.ts';
import { type Handled, HandlerFailed, runHandlers, type Surroundings } from './run-handlers.ts';

type Conflict = Extract<Answer, { answer: 'conflict' }>;

/** How one transaction with a group of entries ended. An outage is not among them: it is thrown. */
export type Attempt =
  | {
      readonly outcome: 'committed';
      readonly cut: readonly ReadyEntry[];
      readonly conflicts: readonly { entry: ReadyEntry; answer: Conflict }[];
    }
  | { readonly outcome: 'contended' }
  | { readonly outcome: 'unknown' }
  | { readonly outcome: 'lost-race'; readonly error: unknown; readonly entry: ReadyEntry | undefined }
  | { readonly outcome: 'failed'; readonly error: unknown; readonly entry: ReadyEntry | undefined }
  | { readonly outcome: 'rejected'; readonly reason: string; readonly error: unknown; readonly entry: ReadyEntry };

/** One transaction: claim all, handle the fresh ones, commit. Sets verdicts only once the commit is certain. */
export async function attempt(
  path: Path,
  inbox: TransactionalInbox<any>,
  scope: Scope,
  entries: readonly ReadyEntry[],
): Promise<Attempt> {
  await reach(path, scope, 'claim', 'before', entries);
  try {
    const budgetMs = Math.max(path.policy.timeoutMs, path.policy.batchBudgetMs);
    await scope.position?.settleDoubt();
    const known = entries.filter(entry => scope.position?.covers(entry));
    if (known.length > 0) return confirmed(path, entries, known);
    let clashes = () => 0;
    const done = await inbox.transaction(claimsOf(path, entries), { budgetMs, overlap: path.overlap }, async unit => {
      await holdLetters(unit, entries);
      const claimed = withoutOvertaking(path, entries, await handleClaimed(path, scope, entries, unit));
      await unit.sealOutbox();
      clashes = () => unit.outboxClashes;
      await closeLetters(unit, claimed.results.keys());
      const move = scope.position?.move(decidedBy(path, entries, claimed));
      if (move !== undefined) await unit.advance(move);
      return { ...claimed, move };
    });
    if (done.move !== undefined) scope.position?.moved(done.move);
    if (clashes() > 0) warnClash(path);
    await reach(path, scope, 'record', 'after', entries);
    return { outcome: 'committed', cut: done.cut, conflicts: recordVerdicts(path, entries, done) };
  } catch (error) {
    if (isNevertwiceError(error, 'NT_COMMIT_UNKNOWN')) scope.position?.doubt();
    return outcomeOf(error, entries.length);
  }
}

function warnClash(path: Path): void {
  path.warn(
    'NT_OUTBOX_CLASH',
    `${path.consumer}: a message for the outbox was left out, as one with its id waits there already; ids that are given by hand have to differ`,
  );
}

/** A commit that the server never confirmed has landed after all: the lane's position is behind these. */
function confirmed(path: Path, entries: readonly ReadyEntry[], known: readonly ReadyEntry[]): Attempt {
  path.counts.duplicates += known.length;
  for (const entry of known) entry.verdict = { verdict: 'duplicate', cause: 'commit-unknown', at: undefined };
  return { outcome: 'committed', cut: entries.filter(entry => entry.verdict === undefined), conflicts: [] };
}

/** The entries that have their verdict once this transaction commits. */
function decidedBy(path: Path, entries: readonly ReadyEntry[], done: Claimed): readonly ReadyEntry[] {
  const cut = new Set(done.cut);
  return entries.filter((entry, i) => {
    if (cut.has(entry)) return false;
    const { answer } = done.answers[i]!;
    // What is set aside as a conflict takes a transaction of its own; what a live owner has is not decided.
    return answer !== 'busy' && !(answer === 'conflict' && path.policy.onConflict === 'dead-letter');
  });
}

export interface Claimed extends Handled {
  readonly answers: readonly Answer[];
  /** Set aside because an earlier message of their key is. */
  readonly behind: ReadonlySet<ReadyEntry>;
}

/** The inside of the transaction, between claim and commit. */
export async function handleClaimed(
  path: Path,
  scope: Scope,
  entries: readonly ReadyEntry[],
  unit: Unit<unknown>,
): Promise<Claimed> {
  await reach(path, scope, 'claim', 'after', entries);
  // Sent now, needed only before the commit: on a pipelined connection it costs the handlers no round trip.
  const answering = unit.answers();
  answering.catch(() => undefined);
  const fresh = path.dedupe === 'position' ? entries : entries.filter((_, i) => unit.fresh[i]);
  const behind = await behindDeadLetters(path, fresh, unit);
  const open = behind.size === 0 ? fresh : fresh.filter(entry => !behind.has(entry));

  await reach(path, scope, 'handle', 'before', open);
  const adders = new Map<ReadyEntry, Adder>();
  const handled = await runHandlers(path, scope, open, surroundings(path, scope, unit, adders)).catch(error => {
    throw rootOf(error, unit.failure);
  });
  await reach(path, scope, 'handle', 'after', open);
  refuseRejectedAdds(handled, adders);
  warnUnusedHandle(path, unit, handled);

  const unclaimed = [...handled.rejected.keys(), ...handled.cut, ...behind];
  if (unclaimed.length > 0) {
    const indexOf = new Map(entries.map((entry, i) => [entry, i]));
    await unit.unclaim(unclaimed.map(entry => indexOf.get(entry)!));
    await unit.deadLetter([
      ...[...handled.rejected].map(([entry, reason]) => deadLetterFor(path, entry, { kind: 'rejected', reason })),
      ...[...behind].map(entry => deadLetterFor(path, entry, BEHIND)),
    ]);
  }
  const given = await answering;
  const answers = path.dedupe === 'position' ? entries.map(() => FRESH) : given;
  await reach(path, scope, 'record', 'before', entries);
  return { ...handled, behind, answers };
}

/**
 * A set that adds messages for one that it rejects would publish them: the transaction is undone as if the handler had
 * thrown, and the rejected one is isolated.
 */
function refuseRejectedAdds(handled: Handled, adders: ReadonlyMap<ReadyEntry, Adder>): void {
  for (const [entry, reason] of handled.rejected) {
    if (adders.get(entry)?.used) throw new HandlerFailed(new Reject(reason), entry);
  }
}

const FRESH: Answer = { answer: 'fresh' };
const PROCESSED = { verdict: 'processed', result: undefined } as const;
const BEHIND = { kind: 'behind', reason: 'waits behind a dead letter of the same key' } as const;

/**
 * Where dead letters hold up their key, a set must not do a message that stands behind one it has rejected: the
 * transaction is undone as if the handler had thrown, and the rejected one is isolated.
 */
function withoutOvertaking(path: Path, entries: readonly ReadyEntry[], done: Claimed): Claimed {
  if (path.policy.deadLetter !== 'key' || done.rejected.size === 0) return done;
  const first = new Map<string, ReadyEntry>();
  for (const entry of entries) {
    if (entry.key === undefined) continue;
    const before = first.get(entry.key);
    if (done.rejected.has(entry)) first.set(entry.key, before ?? entry);
    else if (before !== undefined && done.results.has(entry)) {
      throw new HandlerFailed(new Reject(done.rejected.get(before)!), before);
    }
  }
  return done;
}

async function behindDeadLetters(
  path: Path,
  fresh: readonly ReadyEntry[],
  unit: Unit<unknown>,
): Promise<ReadonlySet<ReadyEntry>> {
  if (path.policy.deadLetter !== 'key') return new Set();
  const keys = [...new Set(fresh.flatMap(entry => entry.key ?? []))];
  const blocked = await unit.blockedKeys(keys);
  return new Set(fresh.filter(entry => entry.key !== undefined && blocked.has(entry.key)));
}

function surroundings(path: Path, scope: Scope, unit: Unit<unknown>, adders: Map<ReadyEntry, Adder>): Surroundings {
  const since = path.clock.monotonicMs();
  const effects = effectsAround(path, scope);
  let shared: object | undefined;
  return {
    context: (signal, entry) => {
      shared ??= { signal, effect: noEffects, tx: unit.tx, sql: unit.sql, savepoint: unit.savepoint.bind(unit) };
      if (entry === undefined) return shared;
      const outbox = new Adder(unit, path.consumer, entry.id);
      return effects.ended === undefined
        ? { ...shared, outbox }
        : { ...shared, outbox, effect: effects.effectOf(signal, entry) };
    },
    ...effects.ended,
    // The same at every call: it counts what the message adds.
    forMessage: entry => {
      const adder = adders.get(entry) ?? new Adder(unit, path.consumer, entry.id);
      adders.set(entry, adder);
      return { outbox: adder };
    },
    next: () => unit.nextMessage(),
    cutOff: reason => unit.abandon(reason),
    // A handler that turned slow must not stretch the transaction to hundreds of times the budget, and a transaction
    // holds at most 64 savepoints.
    full: () => unit.savepoints >= 32 || path.clock.monotonicMs() - since > 2 * path.policy.batchBudgetMs,
  };
}

// A handler that writes through some other connection is not undone with the transaction. Nothing can prevent that; it
// can be seen.
function warnUnusedHandle(path: Path, unit: Unit<unknown>, handled: Handled): void {
  if (handled.results.size > 0 && unit.used === 0) {
    path.warn(
      'NT_HANDLE_UNUSED',
      `the handler of ${path.consumer} used neither context.tx nor context.sql: what it writes elsewhere is not protected against duplicates`,
    );
  }
}

/** Verdicts after a certain commit. Conflicts that are to be set aside are returned: that takes a new transaction. */
export function recordVerdicts(
  path: Path,
  entries: readonly ReadyEntry[],
  done: Claimed,
): { entry: ReadyEntry; answer: Conflict }[] {
  const conflicts: { entry: ReadyEntry; answer: Conflict }[] = [];
  const cut = new Set(done.cut);
  entries.forEach((entry, i) => {
    const answer = done.answers[i]!;
    if (cut.has(entry)) return;
    if (done.rejected.has(entry)) {
      path.counts.deadLetters++;
      entry.verdict = { verdict: 'dead-lettered', kind: 'rejected', reason: done.rejected.get(entry)! };
    } else if (done.behind.has(entry)) {
      path.counts.deadLetters++;
      entry.verdict = { verdict: 'dead-lettered', ...BEHIND };
    } else if (answer.answer === 'fresh') {
      path.counts.processed++;
      const result = done.results.get(entry);
      entry.verdict = result === undefined ? PROCESSED : { verdict: 'processed', result };
    } else if (answer.answer === 'conflict' && path.policy.onConflict === 'dead-letter') {
      conflicts.push({ entry, answer });
    } else {
      entry.verdict = verdictOf(path, entry, answer);
    }
  });
  return conflicts;
}

/**
 * What really went wrong. A handler, or an ORM in it, may catch a deadlock or a lost connection and throw an error of its
 * own; the transaction is gone all the same, and that is not the message's fault.
 */
function rootOf(thrown: unknown, failure: unknown): unknown {
  const kind = classifyFailure(failure);
  if (kind === 'outage')
    return new NevertwiceError('NT_STORE_DOWN', 'the store failed under the handler', { cause: failure });
  if (kind === undefined || kind === 'handler') return thrown;
  return new HandlerFailed(failure, thrown instanceof HandlerFailed ? thrown.entry : undefined);
}

function outcomeOf(thrown: unknown, size: number): Attempt {
  const error = thrown instanceof HandlerFailed ? thrown.error : thrown;
  const entry = thrown instanceof HandlerFailed ? thrown.entry : undefined;
  if (error instanceof Contended) return { outcome: 'contended' };
  if (isNevertwiceError(error, 'NT_COMMIT_UNKNOWN')) return { outcome: 'unknown' };
  if (isNevertwiceError(error, 'NT_STOPPED') || isNevertwiceError(error, 'NT_LANE_LOST')) throw error;
  if (error instanceof LetterGone) throw error;
  if (isOutage(error)) {
    // A handler that found its downstream unavailable holds up only itself and what is behind it.
    if (thrown instanceof HandlerFailed && size > 1) return { outcome: 'failed', error, entry };
    throw error;
  }
  const failure = classifyFailure(error);
  if (failure === 'transient' || failure === 'contended') return { outcome: 'lost-race', error, entry };
  if (isNevertwiceError(error, 'NT_REJECTED') && entry !== undefined) {
    return { outcome: 'rejected', reason: (error as Reject).reason, error, entry };
  }
  return { outcome: 'failed', error, entry };
}
