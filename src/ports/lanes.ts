/** Where a lane that is an ordered log stands, as its row in the store says. */
export interface LaneRow {
  readonly lane: string;
  /** Rises with each owner; a batch of an earlier owner cannot commit any more. */
  readonly epoch: bigint;
  /** The next offset to be handled; undefined before the lane has begun anywhere. */
  readonly position: bigint | undefined;
  /** Which log the position belongs to, as text that the path makes and compares; undefined with `position`. */
  readonly log: string | undefined;
  /** The last record that was handled, in the same way; undefined where there was none. */
  readonly mark: string | undefined;
  /** A person's word on where the next owner begins; undefined where there is none. */
  readonly beginAt: string | undefined;
}

/** The rows of a transactional store that say how far each consumer has come in each lane. */
export interface LaneRows {
  /**
   * Takes a lane over: raises its epoch and returns what stands there. Nothing else may be used as its position: what was
   * read before the epoch was raised may be older than a batch that committed meanwhile.
   */
  raise(consumer: string, lane: string): Promise<LaneRow>;
  /** The same for who holds the lane by `epoch` and is in doubt; undefined where another owner has raised it since. */
  reraise(consumer: string, lane: string, epoch: bigint): Promise<LaneRow | undefined>;
  /** Says where the lane begins, and obeys `beginAt` by it. False where `epoch` is no longer the lane's. */
  begin(consumer: string, lane: string, epoch: bigint, at: LaneBeginning): Promise<boolean>;
  /** Every lane of a consumer, by name. */
  list(consumer: string): Promise<readonly LaneRow[]>;
  /** Writes `beginAt` and raises the epoch, so that a running owner starts over. False where there is no such lane. */
  order(consumer: string, lane: string, beginAt: string): Promise<boolean>;
}

export interface LaneBeginning {
  readonly position: bigint;
  readonly log: string;
  readonly mark: string | undefined;
}

/** What a batch does to the position of its lane. */
export interface LaneMove {
  readonly lane: string;
  readonly epoch: bigint;
  readonly from: bigint;
  /** Not below `from`; the same where the batch only proves that it still owns the lane. */
  readonly to: bigint;
  readonly mark: string | undefined;
}
