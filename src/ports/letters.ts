import type { DeadLetter } from './store.ts';

/** How a dead letter was closed: done by a redrive, found done already, or given up by a person. */
export type LetterOutcome = 'processed' | 'duplicate' | 'discarded';

/** What a person did with a dead letter, and why. */
export interface LetterEvent {
  readonly action: 'retry' | 'revise' | LetterOutcome;
  /** ISO 8601, by the store's clock. */
  readonly at: string;
  readonly by?: string;
  readonly reason?: string;
}

/** Who does something, and why. */
export interface LetterNote {
  readonly by: string | undefined;
  readonly reason: string | undefined;
}

/** A dead letter as its store keeps it. */
export interface StoredLetter extends DeadLetter {
  /** The store's own name for it, for people and for `LetterFilter.ids`. */
  readonly id: string;
  readonly consumer: string;
  /** When it was first set aside, and when last, by the store's clock. */
  readonly firstAt: Date;
  readonly lastAt: Date;
  /** How often a person has changed its headers or body. */
  readonly revision: number;
  /** Oldest first; at most the last 50. */
  readonly history: readonly LetterEvent[];
  /** Undefined while it is open. */
  readonly outcome: LetterOutcome | undefined;
  readonly closedAt: Date | undefined;
  /** Headers and body as they came, once somebody has changed them. */
  readonly original: { readonly headers: DeadLetter['headers']; readonly payload: Uint8Array } | undefined;
}

/** Which dead letters. Every condition that is given has to hold. */
export interface LetterFilter {
  readonly ids?: readonly string[] | undefined;
  /** Of the failure, as in `DeadLetter.failure`. */
  readonly fingerprint?: string | undefined;
  readonly kind?: string | undefined;
  readonly key?: string | undefined;
  readonly messageId?: string | undefined;
  /** Last set aside at least, or at most, this long ago, in milliseconds of the store's clock. */
  readonly olderThanMs?: number | undefined;
  readonly newerThanMs?: number | undefined;
  /** Closed ones instead of open ones. Default false. */
  readonly closed?: boolean | undefined;
}

export interface LetterPage {
  /** Behind the letter of this id; from the first on when undefined. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** New headers or a new body of a letter; what is undefined stays. */
export interface LetterEdit {
  readonly headers?: DeadLetter['headers'] | undefined;
  readonly payload?: Uint8Array | undefined;
}

/** The dead letters of a store, for people. Rows are only ever closed here, never removed. */
export interface Letters {
  /** In the order in which they were first set aside, which is that of each key. */
  list(consumer: string, filter: LetterFilter, page: LetterPage): Promise<readonly StoredLetter[]>;
  /**
   * Notes that somebody is about to send it through again, and changes it first where `edit` says so. The letter as it is then;
   * undefined when it is not open any more, or in somebody else's hands at this moment.
   */
  begin(consumer: string, id: string, note: LetterNote, edit?: LetterEdit): Promise<StoredLetter | undefined>;
  /** Closes it. False when it is not open any more, or in somebody else's hands at this moment. */
  close(consumer: string, id: string, outcome: LetterOutcome, note?: LetterNote): Promise<boolean>;
}
