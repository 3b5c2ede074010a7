import { NevertwiceError } from '../../errors.ts';
import { TRANSACTION_OPEN, whenFree } from './busy.ts';
import type { Connection } from './connection.ts';
import { own, storeError } from './errors.ts';
import { exclusively, type QueueKey } from './exclusive.ts';
import { rawDatabase } from './guarded.ts';
import { assertBegun, OpenTransaction } from './open-transaction.ts';
import type { Settings } from './options.ts';

// Handles inside one of this library's own transactions, so that `within` does not take it for the caller's.
const taken = new WeakSet<object>();

/** What a transaction waits in line for: the file, or the database object where there is no file. */
export function queueKey(connection: Connection): QueueKey {
  return connection.file || rawDatabase(connection.database);
}

/** Begins and ends transactions on one connection; one at a time for a file, and never with the event loop blocked. */
export class TransactionRunner {
  readonly #store: string;
  readonly #settings: Settings;

  constructor(store: string, settings: Settings) {
    this.#store = store;
    this.#settings = settings;
  }

  /** BEGIN IMMEDIATE, `work`, COMMIT; ROLLBACK and the error of `work` when it throws or the transaction is abandoned. */
  run<R>(
    connection: Connection,
    options: { overlap: boolean },
    work: (open: OpenTransaction) => Promise<R>,
  ): Promise<R> {
    return exclusively(queueKey(connection), async () => {
      await this.#begin(connection);
      taken.add(connection.database);
      const open = new OpenTransaction(connection, options);
      try {
        const result = await open.until(async () => work(open));
        open.close();
        await this.#commit(connection);
        return result;
      } catch (error) {
        open.close(error);
        this.#rollback(connection, error);
        throw error;
      } finally {
        taken.delete(connection.database);
      }
    });
  }

  /**
   * Runs `work` in the transaction that the caller has open on his handle. A savepoint around it, or the caller who
   * catches the error and commits would keep the claim of a message whose effect is missing.
   */
  within<R>(connection: Connection, work: (open: OpenTransaction) => Promise<R>): Promise<R> {
    return exclusively(connection.database, async () => {
      assertBegun(connection);
      if (taken.has(connection.database)) throw ownTransaction();
      const open = new OpenTransaction(connection, { overlap: false });
      own(this.#store, () => connection.exec('SAVEPOINT nevertwice_within'));
      try {
        // Takes the write lock, which the caller's transaction may not have yet, where no prepared statement can meet a
        // refusal: libsql leaves such a statement unfinished, and then nothing can be released or committed any more.
        own(this.#store, () => connection.exec(`DELETE FROM ${this.#settings.names.quoted.inbox} WHERE false`));
        const result = await open.until(async () => work(open));
        open.close();
        connection.exec('RELEASE nevertwice_within');
        return result;
      } catch (error) {
        open.close(error);
        const there = connection.inTransaction;
        if (there) connection.exec('ROLLBACK TO nevertwice_within; RELEASE nevertwice_within');
        throw error;
      }
    });
  }

  /** Runs reads in line with the transactions, so that they see nothing that is not committed. */
  read<R>(connection: Connection, work: () => R): Promise<R> {
    return exclusively(queueKey(connection), async () => {
      let result: R | undefined;
      await this.#whenFree(connection, () => {
        result = work();
        return undefined;
      });
      return result as R;
    });
  }

  #begin(connection: Connection): Promise<void> {
    // Immediate: a transaction that reads first cannot be upgraded once another writer has committed, wait or not.
    return this.#whenFree(connection, () => {
      if (connection.inTransaction) return TRANSACTION_OPEN;
      connection.exec('BEGIN IMMEDIATE');
      return undefined;
    });
  }

  #commit(connection: Connection): Promise<void> {
    return this.#whenFree(connection, () => {
      connection.exec('COMMIT');
      return undefined;
    });
  }

  async #whenFree(connection: Connection, attempt: () => string | undefined): Promise<void> {
    if (!connection.isOpen) throw new NevertwiceError('NT_CONFIG', `${this.#store}: the database object is closed`);
    try {
      await whenFree(this.#store, this.#settings, attempt);
    } catch (error) {
      throw storeError(this.#store, error);
    }
  }

  #rollback(connection: Connection, error: unknown): void {
    if (!connection.inTransaction) return;
    try {
      connection.exec('ROLLBACK');
    } catch (failure) {
      throw new NevertwiceError('NT_STORE_DOWN', `${this.#store}: a transaction could not be rolled back`, {
        cause: new AggregateError([failure, error]),
      });
    }
  }
}

function ownTransaction(): NevertwiceError {
  return new NevertwiceError(
    'NT_CONFIG',
    'within: this handle is inside a transaction of the store itself; pass the handle that the handler was given',
  );
}
