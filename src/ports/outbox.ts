/**
 * Into how many parts the outbox is split, so that relays can share the work. Part of what is stored: a key whose rows
 * lay in two parts would lose its order.
 */
export const OUTBOX_PARTS = 16;

/** A message for the outbox, checked and as bytes. */
export interface OutboxRow {
  readonly topic: string;
  /** What keeps messages of a topic in order; undefined for none. */
  readonly key: string | undefined;
  /** The same on every copy, for ever. */
  readonly id: string;
  /** JSON text of an object of texts; undefined for none. */
  readonly headers: string | undefined;
  /** True when `payload` is JSON text. */
  readonly json: boolean;
  readonly payload: Uint8Array;
  /** 31 bits of topic and key, which those who add lock; without a key, of the id. Its remainder is the part. */
  readonly hash: number;
  /** An id that is waiting already is an error for whoever adds it, instead of the end of the new copy. */
  readonly refuseClash: boolean;
}

/** A row as a relay reads it. */
export interface WaitingRow {
  readonly part: number;
  /** Rises within a key in the order of the commits. */
  readonly seq: bigint;
  readonly id: string;
  readonly topic: string;
  readonly key: string | undefined;
  readonly headers: string | undefined;
  readonly json: boolean;
  readonly payload: Uint8Array;
  readonly hash: number;
  /** Tries that the destination refused, over all relays. */
  readonly attempts: number;
  /** When it was added, by the store's clock. */
  readonly at: Date;
  /** An earlier row of its key is parked. */
  readonly behind: boolean;
}

/** A row that no try could publish, for a person to look at. */
export interface ParkedRow {
  readonly seq: bigint;
  readonly id: string;
  readonly topic: string;
  readonly key: string | undefined;
  readonly attempts: number;
  readonly reason: string;
  readonly parkedAt: Date;
  /** Rows of its key that wait behind it, as far as a relay has come upon them. */
  readonly behind: number;
}

export interface Backlog {
  /** Rows that relays still have to publish. */
  readonly waiting: number;
  /** When the oldest of them was added. */
  readonly oldest: Date | undefined;
  /** Rows that are parked. */
  readonly parked: number;
  /** Rows that wait behind them. */
  readonly behind: number;
}

/** What a relay hears of: `woken` at every sign of a new row, `state` when the way for signs opens or closes. */
export interface WakeListener {
  woken(): void;
  /** `ears` says whether signs of other processes come through; `reason` why not, undefined where they never do. */
  state(ears: boolean, reason: string | undefined): void;
}

/**
 * The outbox of a transactional store.
 *
 * For one key the order of `seq` is the order of the commits: whoever adds takes the key's lock before the number, and
 * holds it until the commit is visible. So every snapshot has a gapless prefix of each key, and a relay that reads the
 * oldest rows and stops a key at its first refusal publishes each id for the first time in order, however many relays there
 * are. The parts that `join` gives only spare work.
 */
export interface OutboxStore<Tx> {
  /** Creates or checks the tables. */
  open(): Promise<void>;
  /** Writes rows at once in the transaction that the caller has open. Returns how many were left out, as their ids wait already. */
  add(tx: Tx, rows: readonly OutboxRow[]): Promise<number>;
  /** Says that rows were committed. Never waits and never fails: a sign may be lost, and relays also look by themselves. */
  wake(): void;
  /** Listens for signs, of this process and, where the client can, of others. Returns what ends it. */
  listen(listener: WakeListener): () => Promise<void>;
  /** Begins or prolongs a relay's membership by `leaseMs`, and says which parts are its own now. */
  join(relay: string, leaseMs: number): Promise<readonly number[]>;
  leave(relay: string): Promise<void>;
  /**
   * The oldest rows of each part, without those whose hash is in `held`, in the order of `seq`; about `limit` together, of each
   * part at least one where there is one.
   */
  read(parts: readonly number[], held: readonly number[], limit: number): Promise<readonly WaitingRow[]>;
  /** Deletes acknowledged rows; by id too, as after a failover a number may stand for another row. */
  remove(rows: readonly WaitingRow[]): Promise<void>;
  /** Counts a refused try. Returns the tries so far, or undefined when the row is gone. */
  refused(row: WaitingRow, reason: string): Promise<number | undefined>;
  /** Parks a row, and with it all of its key. Does nothing when the row is gone. */
  park(row: WaitingRow): Promise<void>;
  /** Takes rows out of the relays' way whose key is parked; those whose key is free again by now stay. */
  moveBehind(rows: readonly WaitingRow[]): Promise<void>;
  /** What is parked, oldest first. */
  parked(limit: number): Promise<readonly ParkedRow[]>;
  /** Gives a parked row and those behind it back to the relays. False when nothing is parked under that number. */
  retry(seq: bigint): Promise<boolean>;
  /** Deletes a parked row for good, and gives those behind it back. False when nothing is parked under that number. */
  discard(seq: bigint): Promise<boolean>;
  backlog(): Promise<Backlog>;
}
