/** The log behind a lane and its reader's place in it, as the broker shows them now. */
export interface LogState {
  /** What tells this log from another of the same name, as far as the client shows it. */
  readonly clusterId: string | undefined;
  readonly topicId: string | undefined;
  /** The lowest offset that is still there. */
  readonly earliest: bigint;
  /** The offset behind the last record. */
  readonly end: bigint;
  /** Which partition of how many it is; the number only grows. */
  readonly partition: number;
  readonly partitions: number;
  /** Where a reader begins that has no place yet, by the source's options. */
  readonly start: bigint;
  /** What the broker keeps for this reader; undefined where it keeps nothing. */
  readonly committed:
    | {
        readonly offset: bigint;
        /**
         * The position that the consumer had recorded when it committed this offset; null where somebody else has set it,
         * undefined where the client cannot say.
         */
        readonly position: bigint | null | undefined;
      }
    | undefined;
}

/** What a lane offers when it is an ordered log whose every record has an offset of its own. */
export interface LaneLog {
  /** Asks the broker. Rejects when it does not answer. */
  inspect(): Promise<LogState>;
  /** The first delivery is the first record from here on. Called once, before the first `receive`. */
  beginAt(offset: bigint): void;
  /** The position that the store has committed, for the broker to keep beside what is settled. */
  recorded(position: bigint): void;
  /**
   * Replaces what somebody else has set for this reader by the recorded position. Resolves when the broker has it, or when the
   * lane goes: only from then on can another one's later word be told from the one that this reader has begun with.
   */
  claim(): Promise<void>;
  /** The lane ends, and the source hands out another one for the same log if it still owns it. */
  reopen(): void;
}
