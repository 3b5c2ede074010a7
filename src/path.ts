import type { Circuit } from './circuit.ts';
import type { Entry } from './entry.ts';
import type { Decode, Router } from './handlers.ts';
import type { Identity, Normaliser } from './identity/identity.ts';
import type { ResolvedPolicy } from './options.ts';
import type { Clock } from './ports/clock.ts';
import type { EffectRows } from './ports/effects.ts';
import type { LaneRows } from './ports/lanes.ts';
import type { Points, Step } from './ports/points.ts';
import type { LeaseInbox, TransactionalInbox } from './ports/store.ts';
import type { LanePosition } from './positions/lane-position.ts';

/** What the store promises, and the way to it: the one place where the path branches. */
export type BoundStore =
  | { readonly promise: 'exactly-once'; readonly inbox: TransactionalInbox<any>; readonly lanes: LaneRows }
  | { readonly promise: 'at-least-once'; readonly inbox: LeaseInbox };

/** Counts of one consumer since its start. Each delivery ends in exactly one of the first four, or was failed and comes again. */
export interface Summary {
  /** Handled, with the effect committed. */
  processed: number;
  /** Copies of something already processed; dropped. */
  duplicates: number;
  /** Same id, other payload. A conflict that was dead-lettered counts here only. */
  conflicts: number;
  /** Set aside: rejected, out of attempts, without a usable id, unreadable, of an unknown type. */
  deadLetters: number;
  /** Tries of a handler that ended in an error. Each was followed by another try, a redelivery or a dead letter. */
  failed: number;
  /**
   * Handled without the store, because it was down and `onStoreDown` is `process`. Also counted in `processed`. Left out
   * while there are none.
   */
  unprotected?: number;
  /** Effects that were called again although an earlier call may have happened, as `mayRepeat` allows. Left out while there are none. */
  repeatedEffects?: number;
}

export type Mode = 'at-least-once' | 'at-most-once';

/** Everything that the path of one consumer needs; the same for all its lanes. */
export interface Path {
  readonly consumer: string;
  readonly store: BoundStore;
  readonly identity: Identity;
  readonly normalise: Normaliser | undefined;
  readonly decode: Decode;
  readonly router: Router;
  readonly onUnknownType: 'dead-letter' | 'ignore' | 'refuse';
  readonly overlap: boolean;
  /** What a handler returns is kept by a lease store, for the callers of copies: only where there is a caller. */
  readonly keepsResults: boolean;
  /** Handled and then marked as done, or the other way round. */
  readonly mode: Mode;
  /** What tells a copy: its id in the inbox, the position of its lane, or the id with the position beside it for fencing. */
  readonly dedupe: 'id' | 'position' | 'both';
  /** The ledger of calls to others; undefined where the consumer makes none. */
  readonly effects: EffectRows | undefined;
  readonly policy: ResolvedPolicy;
  readonly clock: Clock;
  readonly points: Points | undefined;
  readonly counts: Summary;
  /** Where the consumer has one. */
  readonly circuit?: Circuit | undefined;
  /** Warnings for a person, one line each; at most one per `code`. */
  warn(code: string, text: string): void;
}

/** What differs from one lane, or one call, to the next. */
export interface Scope {
  readonly lane: string;
  /** How far the lane has come, where the store keeps that. */
  readonly position: LanePosition | undefined;
  /** No handler starts once this aborts; what has run commits. */
  readonly stopping: AbortSignal;
  /** Running handlers are cut off once this aborts, and their transaction is rolled back. */
  readonly abort: AbortSignal;
  /** Tries of a failing handler in this process. */
  readonly attempts: number;
  /** How long to wait for a live owner before the message is handed back; Infinity where the source cannot take it. */
  readonly busyWaitMs: number;
  /** True when a message out of attempts can be handed back to the source instead of being dead-lettered. */
  canRetryLater(entry: Entry): boolean;
}

/** Waits at a named point, when a test asked to. */
export function reach(
  path: Path,
  scope: Scope,
  step: Step,
  edge: 'before' | 'after',
  entries: readonly Entry[],
): void | Promise<void> {
  if (path.points === undefined) return;
  return path.points.reach({
    step,
    edge,
    consumer: path.consumer,
    lane: scope.lane,
    ids: entries.map(e => e.id ?? ''),
  });
}
