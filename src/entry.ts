import type { Verdict } from './core/verdict.ts';
import type { Route } from './handlers.ts';
import type { LetterInHand } from './letter-in-hand.ts';
import type { Delivery, Message } from './ports/delivery.ts';
import type { Claim } from './ports/store.ts';

/** Why a message is set aside without its handler: found before the claim. */
export interface Refusal {
  readonly kind: 'bad-id' | 'bad-message' | 'unknown-type' | 'unreadable' | 'quarantined';
  readonly reason: string;
}

/** One delivery on its way through the path. The only mutable thing on it, and it belongs to one lane. */
export interface Entry {
  readonly delivery: Delivery;
  /** The readable id; undefined when there is none that can be used. */
  readonly id: string | undefined;
  /** Undefined exactly when `id` is. */
  readonly claim: Claim | undefined;
  readonly route: Route | undefined;
  readonly key: string | undefined;
  readonly refusal: Refusal | undefined;
  message: Message;
  verdict: Verdict | undefined;
  /** Tries of its handler that failed, in this process. */
  failures: number;
  /** Transactions with it that lost a race since its last try that counted. */
  lostRaces: number;
  /** Commits with it that the server never confirmed. */
  unknownCommits: number;
  /** Under a lease: its handler has run, and the store has not said yet that it knows. */
  unrecorded: { readonly nonce: string; readonly result: unknown } | undefined;
  /** When it was first found busy, by the monotonic clock; undefined when it was not. */
  busySince: number | undefined;
  /** When an open circuit first kept it from being set aside, by the monotonic clock. */
  heldSince: number | undefined;
  /** Where it comes from a dead letter and not from a source. */
  letter: LetterInHand | undefined;
}

/** An entry that has a claim and a route, so that it can go to its handler. */
export type ReadyEntry = Entry & {
  readonly id: string;
  readonly claim: Claim;
  readonly route: Route;
  readonly refusal: undefined;
};

export function isReady(entry: Entry): entry is ReadyEntry {
  return entry.refusal === undefined && entry.claim !== undefined && entry.route !== undefined;
}

/** What a transaction with these entries claims in the inbox: nothing where the position of the lane tells copies. */
export function claimsOf(path: { readonly dedupe: string }, entries: readonly Entry[]): readonly Claim[] {
  return path.dedupe === 'position' ? [] : entries.flatMap(entry => entry.claim ?? []);
}

/** The deliveries of one lane that go through the path together. Keeps what is already decided over pauses and restarts. */
export interface Batch {
  readonly deliveries: readonly Delivery[];
  /** Undefined until identified. */
  entries: readonly Entry[] | undefined;
}

export function undecided(batch: Batch): readonly Entry[] {
  return (batch.entries ?? []).filter(entry => entry.verdict === undefined);
}
