import { NevertwiceError } from '../../../errors.ts';
import type { OutboxRow } from '../../../ports/outbox.ts';
import type { OpenTransaction } from '../driver.ts';
import type { AddStatements } from './add.ts';

/**
 * What the handlers of one transaction add. It is kept here and written with COMMIT, all of it at once: the keys' locks are
 * then held for as short as can be, and it costs no round trip.
 *
 * Not where a ROLLBACK TO may undo it, which takes the rows and the locks away: what was added before a savepoint is written
 * before it, and from then on each is written at once, until the next message.
 */
export class PendingOutbox {
  readonly #open: OpenTransaction<unknown>;
  readonly #statements: AddStatements;
  #rows: OutboxRow[] = [];
  /** Written before a savepoint, and not waited for yet. */
  #early: Promise<unknown> | undefined;
  #written = 0;
  #leftOut = 0;

  constructor(open: OpenTransaction<unknown>, statements: AddStatements) {
    this.#open = open;
    this.#statements = statements;
  }

  /** Rows that were given; some of them may have been left out. */
  get added(): number {
    return this.#written + this.#rows.length;
  }

  /** Rows that were left out, as their ids waited already. Complete once the transaction has committed. */
  get leftOut(): number {
    return this.#leftOut;
  }

  add(make: () => OutboxRow): Promise<void> {
    const { guard, watched } = this.#open;
    try {
      guard.assertOpen();
      const row = make();
      if (row.refuseClash || guard.inSavepoint || !watched) return this.#writeAlone(row);
      guard.assumeUsed();
      guard.beforeSavepoint = () => this.#writeEarly();
      this.#rows.push(row);
      return Promise.resolve();
    } catch (error) {
      return guard.refuse(error);
    }
  }

  /** What is still kept goes with COMMIT. */
  async commitWith(): Promise<void> {
    await this.#early;
    const rows = this.#take();
    if (rows.length === 0) return;
    const locks = this.#statements.locks(rows);
    if (locks !== undefined) this.#open.commitBehind(locks);
    this.#open.commitBehind(this.#statements.insert(rows), ([row]) => this.#count(rows, row?.added));
  }

  /** What is still kept is written now. */
  async write(): Promise<void> {
    await this.#early;
    const rows = this.#take();
    if (rows.length > 0) await this.#watched(() => this.#write(rows));
  }

  #take(): readonly OutboxRow[] {
    const rows = this.#rows;
    this.#rows = [];
    return rows;
  }

  #writeAlone(row: OutboxRow): Promise<void> {
    // Before it, or a message of the same key that came first would get the higher number.
    this.#writeEarly();
    return this.#watched(async () => {
      const added = await this.#write([row]);
      if (added > 0 || !row.refuseClash) return;
      throw new NevertwiceError(
        'NT_OUTBOX_CLASH',
        `a message with the id ${JSON.stringify(row.id)} waits in the outbox already; this one was not added`,
      );
    });
  }

  /** Sends it before it returns, so that it stands in front of whatever is sent next. */
  #writeEarly(): void {
    const rows = this.#take();
    if (rows.length === 0) return;
    const written = Promise.all([this.#early, this.#watched(() => this.#write(rows))]);
    written.catch(() => undefined);
    this.#early = written;
  }

  // Like a handler's own statement: when its time is over, one that waits for a key's lock must be cancelled.
  #watched<R>(write: () => Promise<R>): Promise<R> {
    return this.#open.guard.track('INSERT INTO outbox', write);
  }

  async #write(rows: readonly OutboxRow[]): Promise<number> {
    const added = await addRows(this.#open, this.#statements, rows);
    this.#count(rows, added);
    return added;
  }

  #count(rows: readonly OutboxRow[], added: unknown): void {
    this.#written += rows.length;
    this.#leftOut += rows.length - Number(added);
  }
}

/** Locks, then inserts, at once. Returns how many were written. */
export async function addRows(
  open: OpenTransaction<unknown>,
  statements: AddStatements,
  rows: readonly OutboxRow[],
): Promise<number> {
  const locks = statements.locks(rows);
  const locked = locks === undefined ? undefined : open.query(locks);
  // A client that nothing is known of may not take two statements at once.
  if (!open.watched) await locked;
  const [, [row]] = await Promise.all([locked, open.query(statements.insert(rows))]);
  return Number(row?.added);
}
