import { classifyFailure } from '../../../core/failures.ts';
import { NevertwiceError } from '../../../errors.ts';
import { TransactionGuard } from '../../sql/guard.ts';
import type { BeginOptions, Driver, OpenTransaction, Row } from '../driver.ts';
import type { Statement } from '../statements.ts';

/**
 * What it takes to run on any other PostgreSQL client or ORM: a few lines.
 *
 * `transaction` begins, runs `work`, commits when it resolves and rolls back when it rejects. `query` runs one statement
 * with `$1`-style placeholders on the handle that `transaction` gave; values are text, integers or null.
 */
export interface Executor<Tx> {
  transaction<R>(work: (tx: Tx) => Promise<R>): Promise<R>;
  query(tx: Tx, text: string, values: readonly unknown[]): Promise<{ rows: readonly Record<string, unknown>[] }>;
  /** The handle for the handler, watched by `guard`: refuse and track what it sends. Without it the handle is passed as it is. */
  guarded?(tx: Tx, guard: HandleGuard): Tx;
  /** True when statements sent without waiting travel together, so that overlapping handlers gain. */
  readonly pipelined?: boolean;
  /** Connections it may hold at once, when it knows. */
  readonly connections?: number;
  readonly name?: string;
}

/** What a handle wrapper calls: `track` for a statement that returns a promise, `admit` where there is none to follow. */
export type HandleGuard = Pick<TransactionGuard, 'admit' | 'track' | 'assertOpen'>;

export class ExecutorDriver<Tx> implements Driver<Tx> {
  readonly name: string;
  readonly overlap: true | string;
  readonly connections: number | undefined;
  readonly #executor: Executor<Tx>;

  constructor(executor: Executor<Tx>) {
    this.#executor = executor;
    this.name = executor.name ?? 'executor';
    this.overlap = executor.pipelined === true || `${this.name} does not pipeline statements of one transaction`;
    this.connections = executor.connections;
  }

  async transaction<R>(
    begin: BeginOptions,
    work: (open: OpenTransaction<Tx>, first: readonly Row[]) => Promise<R>,
  ): Promise<R> {
    const guard = new TransactionGuard(begin);
    const abandoned = Promise.withResolvers<never>();
    abandoned.promise.catch(() => undefined);
    let began = false;
    let committing = false;
    try {
      return await this.#executor.transaction(async tx => {
        began = true;
        const open = this.#openOn(tx, guard, reason => {
          guard.close(reason);
          abandoned.reject(reason);
        });
        const first = begin.first === undefined ? [] : await open.query(begin.first);
        const result = await Promise.race([work(open, first), abandoned.promise]);
        await Promise.race([guard.drained(), abandoned.promise]);
        guard.close();
        await this.#assertAlive(tx, guard);
        committing = true;
        return result;
      });
    } catch (error) {
      guard.close(error);
      throw failed(error, { began, committing });
    }
  }

  // Some clients resolve although the server answered COMMIT with ROLLBACK. An aborted transaction refuses every
  // statement, so one more tells before the commit is believed.
  async #assertAlive(tx: Tx, guard: TransactionGuard): Promise<void> {
    try {
      await this.#executor.query(tx, 'SELECT 1', []);
    } catch (error) {
      throw classifyFailure(error) === 'outage' ? error : guard.abortedError();
    }
  }

  join(tx: Tx): OpenTransaction<Tx> {
    const guard = new TransactionGuard({ overlap: false });
    return this.#openOn(tx, guard, reason => guard.close(reason));
  }

  #openOn(tx: Tx, guard: TransactionGuard, abandon: (reason: unknown) => void): OpenTransaction<Tx> {
    const executor = this.#executor;
    return {
      tx: executor.guarded?.(tx, guard) ?? tx,
      guard,
      query: async statement => (await executor.query(tx, statement.text, statement.values)).rows,
      abandon,
    };
  }

  async query(statement: Statement): Promise<readonly Row[]> {
    try {
      return await this.#executor.transaction(
        async tx => (await this.#executor.query(tx, statement.text, statement.values)).rows,
      );
    } catch (error) {
      throw failed(error, { began: false, committing: false });
    }
  }
}

function failed(error: unknown, at: { began: boolean; committing: boolean }): unknown {
  const failure = classifyFailure(error);
  // The server refused the commit by a code of its own: certainly rolled back. Anything else at this point is unknown.
  if (at.committing && (failure === undefined || failure === 'outage')) {
    return new NevertwiceError('NT_COMMIT_UNKNOWN', 'the connection was lost before the server confirmed the commit', {
      cause: error,
    });
  }
  if (!at.began && failure === 'outage') {
    return new NevertwiceError('NT_STORE_DOWN', 'cannot reach PostgreSQL', { cause: error });
  }
  return error;
}
