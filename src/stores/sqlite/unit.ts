import type { LaneMove } from '../../ports/lanes.ts';
import type { OutboxRow } from '../../ports/outbox.ts';
import type { Sql } from '../../ports/sql.ts';
import type { Answer, Claim, DeadLetter, Unit } from '../../ports/store.ts';
import { deleteClaims, insertClaims, readAnswers } from './claims.ts';
import type { SqliteDatabase } from './database.ts';
import { insertDeadLetters, readBlockedKeys } from './dead-letters.ts';
import { own } from './errors.ts';
import { laneLost, moveLane } from './lanes.ts';
import { closeLetter, isOpenLetter } from './letters.ts';
import type { OpenTransaction } from './open-transaction.ts';
import type { Names } from './options.ts';
import { assertAdded, insertRow } from './outbox-rows.ts';

/** What a unit needs to know about the store and the consumer it belongs to. */
export interface Scope<Tx> {
  readonly store: string;
  readonly names: Names;
  /** The consumer's number in this database. */
  readonly consumer: bigint;
  readonly wrap: (database: SqliteDatabase) => Tx;
}

export class SqliteUnit<Tx> implements Unit<Tx> {
  readonly fresh: readonly boolean[];
  readonly #scope: Scope<Tx>;
  readonly #open: OpenTransaction;
  readonly #claims: readonly Claim[];
  #tx: { readonly handle: Tx } | undefined;
  #added = 0;
  #leftOut = 0;

  /** Claims. */
  constructor(scope: Scope<Tx>, open: OpenTransaction, claims: readonly Claim[]) {
    this.#scope = scope;
    this.#open = open;
    this.#claims = claims;
    this.fresh = own(scope.store, () => insertClaims(open.connection, scope.names, scope.consumer, claims));
  }

  // Built when asked for: many handlers use only `sql`, and an ORM's handle costs more than a claim.
  get tx(): Tx {
    this.#tx ??= { handle: this.#scope.wrap(this.#open.database) };
    return this.#tx.handle;
  }

  get sql(): Sql {
    return this.#open.sql;
  }

  get used(): number {
    return this.#open.guard.used;
  }

  get failure(): unknown {
    return this.#open.guard.firstFailure?.error;
  }

  get savepoints(): number {
    return this.#open.guard.savepoints;
  }

  savepoint<R>(work: () => Promise<R>): Promise<R> {
    return this.#open.savepoints.run(work);
  }

  async answers(): Promise<readonly Answer[]> {
    return this.#own((connection, names, consumer) =>
      readAnswers(connection, names, consumer, this.#claims, this.fresh),
    );
  }

  async unclaim(indexes: readonly number[]): Promise<void> {
    // A row that was there before says that the message is done; it is not this transaction's to take away.
    const mine = indexes.filter(i => this.fresh[i]).flatMap(i => this.#claims[i] ?? []);
    this.#own((connection, names, consumer) => deleteClaims(connection, names, consumer, mine));
  }

  async deadLetter(letters: readonly DeadLetter[]): Promise<void> {
    this.#own((connection, names, consumer) => insertDeadLetters(connection, names, consumer, letters));
  }

  // The write lock is this transaction's, so nobody else has the letter in hand.
  async holdLetter(id: string): Promise<boolean> {
    return this.#own((connection, names, consumer) => isOpenLetter(connection, names, consumer, id));
  }

  async closeLetter(id: string): Promise<void> {
    this.#own((connection, names, consumer) => closeLetter(connection, names, consumer, id, { action: 'processed' }));
  }

  async blockedKeys(keys: readonly string[]): Promise<ReadonlySet<string>> {
    return this.#own((connection, names, consumer) => readBlockedKeys(connection, names, consumer, keys));
  }

  // At once, as the write lock is held since BEGIN: nobody waits for it longer, and a savepoint that is undone takes it along.
  addToOutbox(make: () => OutboxRow): Promise<void> {
    const { guard } = this.#open;
    try {
      this.#open.assertThere();
      const row = make();
      const written = this.#own((connection, names) => insertRow(connection, names, row));
      guard.assumeUsed();
      this.#added++;
      if (!written) this.#leftOut++;
      assertAdded(row, written);
      return Promise.resolve();
    } catch (error) {
      return guard.refuse(error);
    }
  }

  async sealOutbox(): Promise<void> {}

  get outboxClashes(): number {
    return this.#leftOut;
  }

  /** True when something was added. */
  get hasAdded(): boolean {
    return this.#added > 0;
  }

  async advance(move: LaneMove): Promise<void> {
    // The write lock is held from BEGIN to COMMIT, so nobody can take the lane over in between.
    const moved = this.#own((connection, names, consumer) => moveLane(connection, names, consumer, move));
    if (!moved) throw laneLost(this.#scope.store);
  }

  nextMessage(): void {
    this.#open.guard.nextMessage();
  }

  abandon(reason: unknown): void {
    this.#open.abandon(reason);
  }

  #own<R>(work: (connection: OpenTransaction['connection'], names: Names, consumer: bigint) => R): R {
    this.#open.assertThere();
    return own(this.#scope.store, () => work(this.#open.connection, this.#scope.names, this.#scope.consumer));
  }
}
