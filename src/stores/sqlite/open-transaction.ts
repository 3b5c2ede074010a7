import { NevertwiceError } from '../../errors.ts';
import { TransactionGuard } from '../sql/guard.ts';
import type { Connection } from './connection.ts';
import type { SqliteDatabase } from './database.ts';
import { GuardedDatabase } from './guarded.ts';
import { Savepoints } from './savepoints.ts';
import { SqlTag } from './sql-tag.ts';

/** A transaction between its BEGIN and its end, whoever began it: the handles that work on it and how it dies. */
export class OpenTransaction {
  readonly connection: Connection;
  readonly guard: TransactionGuard;
  readonly savepoints: Savepoints;
  readonly #guarded: GuardedDatabase;
  readonly #tag: SqlTag;
  readonly #abandoned = Promise.withResolvers<never>();

  constructor(connection: Connection, options: { overlap: boolean }) {
    const guard = new TransactionGuard(options);
    const check = () => this.assertThere();
    this.connection = connection;
    this.guard = guard;
    this.savepoints = new Savepoints(guard, connection);
    this.#guarded = new GuardedDatabase(connection.database, guard, check);
    this.#tag = new SqlTag(connection, guard, check);
    // Nobody is there to take it when work ends by itself.
    this.#abandoned.promise.catch(() => undefined);
  }

  get database(): SqliteDatabase {
    return this.#guarded.database;
  }

  get sql(): SqlTag['sql'] {
    return this.#tag.sql;
  }

  /**
   * SQLite ends a transaction by itself at some errors (disk full, OR ROLLBACK, RAISE(ROLLBACK)). A handler that caught
   * the error would go on in autocommit, and its later writes would be committed without their claim.
   */
  assertThere(): void {
    this.guard.assertOpen();
    if (!this.connection.inTransaction) throw this.guard.abortedError();
  }

  /** Runs `work` until it ends or the transaction is abandoned, and makes sure that its writes may be committed. */
  async until<R>(work: () => Promise<R>): Promise<R> {
    const result = await Promise.race([work(), this.#abandoned.promise]);
    if (this.guard.isClosed) await this.#abandoned.promise;
    this.assertThere();
    this.#tag.refuseUnseenFailures();
    this.guard.assertSeen();
    return result;
  }

  abandon(reason: unknown): void {
    if (this.guard.isClosed) return;
    this.guard.close(reason);
    this.#abandoned.reject(reason);
  }

  /** Makes every handle dead. Must come before COMMIT and ROLLBACK. */
  close(reason?: unknown): void {
    this.guard.close(reason);
    this.#guarded.closeCursors();
  }
}

/** Refuses work on a handle that has no transaction: what it writes would be committed at once, without its claim. */
export function assertBegun(connection: Connection): void {
  if (connection.inTransaction) return;
  throw new NevertwiceError(
    'NT_CONFIG',
    'within: no transaction is open on this handle; run BEGIN IMMEDIATE on it first and COMMIT afterwards',
  );
}
