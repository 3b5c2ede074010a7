import type { Attempts } from './attempts.ts';
import type { EffectRows } from './effects.ts';
import type { LaneMove, LaneRows } from './lanes.ts';
import type { Letters } from './letters.ts';
import type { OutboxRow, OutboxStore } from './outbox.ts';
import type { Sql } from './sql.ts';

/** One id that a consumer wants to work on. */
export interface Claim {
  /** The encoded id, byte-exact in every store: see `identity/encoding.ts`. */
  readonly key: Uint8Array;
  /** The same bytes as lower-case hex, computed once. */
  readonly hex: string;
  /** 16 bytes of the payload's fingerprint as lower-case hex, or undefined when fingerprints are off. */
  readonly fingerprint: string | undefined;
}

/** What a store says to a claim. A union, never an exception: a duplicate is daily bread. */
export type Answer =
  | { readonly answer: 'fresh' }
  /** Completed before, `at` by the store's clock. */
  | { readonly answer: 'duplicate'; readonly at: Date | undefined; readonly result?: unknown }
  /** A live owner is doing it now. Never a reason to ack. */
  | { readonly answer: 'busy'; readonly until?: Date | undefined }
  /** Completed before with another payload. Both as hex. */
  | { readonly answer: 'conflict'; readonly stored: string; readonly offered: string };

export interface ConsumerRegistration {
  /** The logical name that scopes deduplication. */
  readonly name: string;
  /** How ids are made (extractor, normaliser, encoding version). A start with another one is refused. */
  readonly signature: string;
  /** How long after its first delivery a message can come again, in milliseconds, where the source knows. */
  readonly redeliveryHorizonMs?: number | undefined;
}

/** One error of a chain, as a dead letter keeps it: bounded, and without what repeats the message's body. */
export interface LetterError {
  readonly name: string;
  readonly code?: string;
  /** The first line, at most 500 characters. */
  readonly message: string;
  /** Where it was thrown: at most 8 frames. */
  readonly frames?: readonly string[];
}

/** A message set aside with its error, for a person to look at and to send through again. */
export interface DeadLetter {
  /** The readable id, or undefined when the message had none. */
  readonly messageId: string | undefined;
  /** Hex that is the same for every copy of this dead letter, so that a redelivery does not add a second one. */
  readonly dedupe: string;
  readonly reason: string;
  /**
   * A short class for counting: `rejected`, `attempts`, `conflict`, `bad-id`, `bad-message`, `unknown-type`, `unreadable`,
   * `behind`, `quarantined`.
   */
  readonly kind: string;
  readonly attempts: number;
  readonly lane: string;
  readonly position: string | undefined;
  readonly type: string | undefined;
  readonly key: string | undefined;
  readonly time: Date | undefined;
  /** Header pairs, values as text, or as `base64:`-prefixed text when they are not UTF-8. */
  readonly headers: readonly (readonly [string, string])[];
  /** The body, lossless. */
  readonly payload: Uint8Array;
  /** True where the body came as a value: then `payload` is JSON of it, and is not decoded again. */
  readonly asJson?: boolean | undefined;
  /** True where `headers` and `payload` are what the consumer's `letterSeal` made of them. */
  readonly sealed?: boolean | undefined;
  /** 16 hex digits, the same for failures of one kind whatever message they met: for grouping. */
  readonly failure?: string | undefined;
  /** The error and what caused it, the outermost first; at most 8. */
  readonly errors?: readonly LetterError[] | undefined;
}

/** How far sources without a broker have come: one small text per (consumer, lane). */
export interface Positions {
  load(consumer: string, lane: string): Promise<string | undefined>;
  save(consumer: string, lane: string, position: string): Promise<void>;
}

/** Differences between stores are data, never name checks. */
export interface StoreCapabilities {
  /** Handlers may overlap inside one transaction; a text says why not. */
  readonly overlap: true | string;
  /** Connections that the store may hold at once, when it knows: concurrency above it minus one is a warning. */
  readonly connections: number | undefined;
}

export interface Counts {
  readonly consumer: string;
  readonly processed: number;
  readonly deadLetters: number;
  readonly oldest: Date | undefined;
  readonly newest: Date | undefined;
}

interface StoreBase {
  readonly capabilities: StoreCapabilities;
  /** For people, without secrets: `postgres`, `sqlite wallet.db`. */
  readonly name: string;
  readonly positions: Positions;
  /** Tries that a process did not live to end. Left out by a store that cannot keep them. */
  readonly attempts?: Attempts | undefined;
  /** Its dead letters, for people. Left out by a store that keeps none for them. */
  readonly letters?: Letters | undefined;
  /** Resolves when the store answers; the probe after an outage. */
  ping(): Promise<void>;
  /** One row per consumer that has ever started, for `nevertwice stats`. */
  stats(): Promise<readonly Counts[]>;
  /** Closes what the store opened itself; a pool or database that the caller passed stays open. */
  close(): Promise<void>;
}

export interface TransactionOptions {
  /** Longest time that the handlers of this transaction are expected to need, in milliseconds. */
  readonly budgetMs: number;
  /** True when handlers overlap on the handle: SAVEPOINT, ROLLBACK TO, SET LOCAL and cursors are then refused. */
  readonly overlap: boolean;
}

/** An open transaction that has claimed. Lives inside the callback of `transaction`. */
export interface Unit<Tx> {
  /** One flag per claim, in order: true when this transaction inserted it. */
  readonly fresh: readonly boolean[];
  /** The user's own handle; every use after the transaction has ended throws NT_TX_CLOSED. */
  readonly tx: Tx;
  readonly sql: Sql;
  /** How often a handler has used `tx` or `sql`. */
  readonly used: number;
  /** The error of the first statement that a handler sent and that failed, unless it was undone since. */
  readonly failure: unknown;
  /** Savepoints set so far by handlers in this transaction. */
  readonly savepoints: number;
  savepoint<R>(work: () => Promise<R>): Promise<R>;
  /** Called before each message's handler: savepoints of the one before must be out of its reach. */
  nextMessage(): void;
  /**
   * The full answers, one per claim. What was not inserted is read in the next statement of this transaction: one
   * combined statement misses the row of a racing transaction.
   */
  answers(): Promise<readonly Answer[]>;
  /** Deletes rows that this transaction itself claimed, given by index. */
  unclaim(indexes: readonly number[]): Promise<void>;
  /** Writes dead letters in this transaction. One that is already open under the same `dedupe` is updated instead. */
  deadLetter(letters: readonly DeadLetter[]): Promise<void>;
  /**
   * Holds an open dead letter until the transaction ends. False, at once, when it is not open any more or another
   * transaction holds it. Left out by a store without `letters`.
   */
  holdLetter?(id: string): Promise<boolean>;
  /** Closes a letter that this transaction holds, as processed. */
  closeLetter?(id: string): Promise<void>;
  /** The keys (in `Delivery.key`'s sense) among these that have an open dead letter. */
  blockedKeys(keys: readonly string[]): Promise<ReadonlySet<string>>;
  /**
   * Moves a lane's position when the transaction commits, as its last statement and in the same message to the server.
   * The transaction then rejects with NT_LANE_LOST, and nothing of it is left, where the lane has another epoch or
   * position. At most once a transaction.
   */
  advance(move: LaneMove): Promise<void>;
  /**
   * Takes a row for the outbox, which is written in this transaction: at the latest by `sealOutbox`, and at once where a
   * savepoint may undo it. Rejects with what `make` throws, with NT_TX_CLOSED, and with NT_OUTBOX_CLASH where the row says so.
   */
  addToOutbox(make: () => OutboxRow): Promise<void>;
  /** Handlers add nothing more: what was taken so far goes with the commit, before `advance`. */
  sealOutbox(): Promise<void>;
  /** Rows that were left out, as their ids waited already. Complete once the transaction has committed. */
  readonly outboxClashes: number;
  /** Ends the transaction from outside while a handler still runs: cancels on the server; the handle is dead at once. */
  abandon(reason: unknown): void;
}

/** A transactional store, bound to one consumer. */
export interface TransactionalInbox<Tx> {
  /**
   * Begins, claims (in begin's round trip where the client allows it), runs `work`, awaits statements still in flight,
   * and commits. Rejects with the error of `work` after a rollback; with `Contended` when a claim met a live owner
   * (nothing of the transaction is left); with NT_COMMIT_UNKNOWN when the server never confirmed; with NT_TX_ABORTED
   * when the server refused the commit because a statement had failed; with NT_STORE_DOWN when there is no connection.
   */
  transaction<R>(
    claims: readonly Claim[],
    options: TransactionOptions,
    work: (unit: Unit<Tx>) => Promise<R>,
  ): Promise<R>;
  /** Claims in a transaction that the caller has open. Never commits, never retries. */
  within<R>(tx: Tx, claims: readonly Claim[], work: (unit: Unit<Tx>) => Promise<R>): Promise<R>;
}

/** Exactly-once effects for everything written through `tx`: the claim and the effect commit together. */
export interface TransactionalStore<Tx> extends StoreBase {
  readonly promise: 'exactly-once';
  /** How far each consumer has come in each lane, for consumers that deduplicate by position. */
  readonly lanes: LaneRows;
  /** Messages that wait to be published, and what relays need. */
  readonly outbox: OutboxStore<Tx>;
  /** Calls to others, for `context.effect`. Without it the store cannot be their ledger. */
  readonly effects?: EffectRows;
  /** Creates or checks the tables, registers the consumer, compares its identity signature. */
  open(consumer: ConsumerRegistration): Promise<TransactionalInbox<Tx>>;
  /** A plain transaction of the store, without a claim: for code outside a consumer. */
  transaction<R>(work: (tx: Tx, sql: Sql) => Promise<R>): Promise<R>;
  /** Runs a consumer's `setup`, one process at a time: two `CREATE TABLE IF NOT EXISTS` at once fail each other. */
  setup(consumer: string, work: (sql: Sql) => Promise<void>): Promise<void>;
}

export interface LeaseGrant {
  readonly answer: Answer;
  /** Proof of ownership for complete and release; present when the answer is `fresh`. */
  readonly nonce?: string;
  /** Rises with every owner of the same key; for fencing downstream. */
  readonly token?: bigint;
}

/** What somebody who owns a key shows for it. */
export interface LeaseProof {
  readonly claim: Claim;
  readonly nonce: string;
}

/** What a lease store holds of one key, for people. */
export type LeaseState =
  | { readonly state: 'absent' }
  /** Somebody works on it, or did until `until` and has not been replaced. */
  | { readonly state: 'claimed'; readonly token: bigint; readonly until: Date }
  /** Given up: the next claim is fresh, with a higher token. */
  | { readonly state: 'released'; readonly token: bigint }
  | { readonly state: 'done'; readonly at: Date; readonly result?: unknown };

/**
 * A lease store, bound to one consumer. Every key goes absent → claimed → done, or back to released. The store's own clock
 * decides when a lease ends. What an owner sends who was replaced changes nothing.
 */
export interface LeaseInbox {
  /** How long a completed id is kept, in milliseconds. */
  readonly retentionMs: number;
  /** All claims in one call; one grant per claim, in order. */
  claim(claims: readonly Claim[], leaseMs: number): Promise<readonly LeaseGrant[]>;
  /**
   * The lease lasts `leaseMs` from now. False where the nonce no longer owns the key: nothing was changed. An owner whose
   * lease ran out and whom nobody has replaced owns it still.
   */
  renew(items: readonly LeaseProof[], leaseMs: number): Promise<readonly boolean[]>;
  /** Marks as done. False where the nonce no longer owns the key: nothing was changed. */
  complete(items: readonly (LeaseProof & { readonly result?: unknown })[]): Promise<readonly boolean[]>;
  /** Gives up ownership so that the next claim is fresh. False where the nonce no longer owns the key. */
  release(items: readonly LeaseProof[]): Promise<readonly boolean[]>;
  /** Looks, and changes nothing. */
  inspect(claims: readonly Claim[]): Promise<readonly LeaseState[]>;
  deadLetter(letters: readonly DeadLetter[]): Promise<void>;
  blockedKeys(keys: readonly string[]): Promise<ReadonlySet<string>>;
}

/** At-least-once, with the window for a double effect narrowed to: handler done, `complete` not yet recorded. */
export interface LeaseStore extends StoreBase {
  readonly promise: 'at-least-once';
  /** Calls of this process that were refused because their owner had been replaced, since the store was made. */
  readonly staleCalls: number;
  open(consumer: ConsumerRegistration): Promise<LeaseInbox>;
}

export type Store = TransactionalStore<any> | LeaseStore;

/** A claim met a live owner within the lock bound, and the transaction is gone. Which claim it was is not known. */
export class Contended extends Error {
  constructor(cause?: unknown) {
    super('a claim waits for a live owner', { cause });
    this.name = 'Contended';
  }
}
