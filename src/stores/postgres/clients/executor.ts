import { classifyFailure, failureCode } from '../../../core/failures.ts';
import { isNevertwiceError, NevertwiceError } from '../../../errors.ts';
import { TransactionGuard } from '../../sql/guard.ts';
import {
  type BeginOptions,
  type Behind,
  type Driver,
  type OpenTransaction,
  type Row,
  refuseCommitBehind,
  type TransactionEnd,
} from '../driver.ts';
import type { Statement } from '../statements.ts';
import { laneError } from './commit.ts';
import { ownError, silentConnection } from './own-statement.ts';

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
  /**
   * For clients that must be told of savepoints: runs `work` in one, and undoes it when it rejects. Meanwhile `query` and
   * the guarded handle must go through it. Without it SAVEPOINT is sent as a statement.
   */
  savepoint?<R>(tx: Tx, work: () => Promise<R>): Promise<R>;
  /** Tells the server to stop what it runs for `tx`: the handler overran its time. Without it, it is waited for. */
  cancel?(tx: Tx): void;
  /** True when statements sent without waiting travel together, so that overlapping handlers gain. */
  readonly pipelined?: boolean;
  /** Connections it may hold at once, when it knows. */
  readonly connections?: number;
  readonly name?: string;
}

/**
 * What a handle wrapper calls: `track` for a statement that runs at once and must have ended before the commit; `admit`,
 * and `watch` for its outcome, for one whose client sees to that.
 */
export type HandleGuard = Pick<TransactionGuard, 'admit' | 'track' | 'watch' | 'assertOpen'>;

export class ExecutorDriver<Tx> implements Driver<Tx> {
  readonly name: string;
  readonly overlap: true | string;
  readonly connections: number | undefined;
  readonly #executor: Executor<Tx>;
  readonly #replyTimeoutMs: number;

  constructor(executor: Executor<Tx>, replyTimeoutMs: number) {
    this.#executor = executor;
    this.#replyTimeoutMs = replyTimeoutMs;
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
    const silent = Promise.withResolvers<never>();
    let giveUp: NodeJS.Timeout | undefined;
    let ours: { readonly error: unknown } | undefined;
    let began = false;
    let committing = false;
    const claimAndWork = async (tx: Tx): Promise<R> => {
      began = true;
      try {
        const behind: Behind[] = [];
        const open = this.#openOn(tx, guard, {
          abandon: reason => {
            guard.close(reason);
            abandoned.reject(reason);
            this.#executor.cancel?.(tx);
            // On a half-open connection neither the statement nor the rollback behind it ever ends.
            giveUp ??= setTimeout(() => silent.reject(silentConnection(reason)), this.#replyTimeoutMs);
          },
          commitBehind: (statement, seen) => void behind.push({ statement, seen }),
          joined: false,
        });
        const first = begin.first === undefined ? [] : await open.query(begin.first);
        const result = await Promise.race([work(open, first), abandoned.promise]);
        await Promise.race([guard.drained(), abandoned.promise]);
        guard.assertSeen();
        guard.close();
        await this.#lastStatements(tx, guard, behind);
        committing = true;
        return result;
      } catch (error) {
        guard.close(error);
        ours = { error };
        throw error;
      }
    };
    try {
      return await Promise.race([this.#executor.transaction(claimAndWork), silent.promise]);
    } catch (error) {
      guard.close(error);
      if (isNevertwiceError(error, 'NT_STORE_DOWN')) throw error;
      // Ours comes back as it is, or wrapped by an ORM. Anything else is the client's own, and tells of a lost connection.
      const lost = ours !== undefined && classifyFailure(error) === 'outage' && !isCausedBy(error, ours.error);
      throw ours === undefined || lost ? clientError(error, { began, committing }) : ours.error;
    } finally {
      clearTimeout(giveUp);
    }
  }

  // Some clients resolve although the server answered COMMIT with ROLLBACK. An aborted transaction refuses every
  // statement, so one more tells before the commit is believed.
  async #lastStatements(tx: Tx, guard: TransactionGuard, behind: readonly Behind[]): Promise<void> {
    try {
      if (behind.length === 0) await this.#executor.query(tx, 'SELECT 1', []);
      for (const { statement, seen } of behind) {
        const { rows } = await this.#executor.query(tx, statement.text, statement.values);
        seen?.(rows);
      }
    } catch (error) {
      throw failureCode(error) === '25P02' ? guard.abortedError() : laneError(error);
    }
  }

  join(tx: Tx): OpenTransaction<Tx> {
    const guard = new TransactionGuard({ overlap: false });
    guard.assumeUsed();
    return this.#openOn(tx, guard, {
      abandon: reason => guard.close(reason),
      commitBehind: refuseCommitBehind,
      joined: true,
    });
  }

  #openOn(
    tx: Tx,
    guard: TransactionGuard,
    end: TransactionEnd & Pick<OpenTransaction<Tx>, 'joined'>,
  ): OpenTransaction<Tx> {
    const executor = this.#executor;
    if (executor.guarded === undefined) guard.assumeUsed();
    return {
      tx: executor.guarded?.(tx, guard) ?? tx,
      guard,
      watched: executor.guarded !== undefined,
      query: async statement => {
        try {
          return (await executor.query(tx, statement.text, statement.values)).rows;
        } catch (error) {
          throw ownError(error);
        }
      },
      savepoint: executor.savepoint === undefined ? undefined : work => executor.savepoint!(tx, work),
      ...end,
    };
  }

  async query(statement: Statement): Promise<readonly Row[]> {
    let began = false;
    try {
      return await this.#executor.transaction(async tx => {
        began = true;
        return (await this.#executor.query(tx, statement.text, statement.values)).rows;
      });
    } catch (error) {
      throw clientError(error, { began, committing: false });
    }
  }
}

function isCausedBy(error: unknown, cause: unknown): boolean {
  for (let e = error, depth = 0; depth < 10; depth++) {
    if (e === cause) return true;
    if (typeof e !== 'object' || e === null) return false;
    e = (e as { cause?: unknown }).cause;
  }
  return false;
}

/** What the client itself says beside the work: it got no connection, lost it, or did not get through with COMMIT. */
function clientError(error: unknown, { began, committing }: { began: boolean; committing: boolean }): unknown {
  const failure = classifyFailure(error);
  // The server refused the commit by a code of its own: certainly rolled back. Anything else at this point is unknown.
  if (committing && (failure === undefined || failure === 'outage')) {
    return new NevertwiceError('NT_COMMIT_UNKNOWN', 'the connection was lost before the server confirmed the commit', {
      cause: error,
    });
  }
  // A wrong password or database is no outage that passes by itself, but it must not burn attempts either.
  if (!began && failure !== undefined) {
    return new NevertwiceError('NT_STORE_DOWN', `cannot connect to PostgreSQL (${failureCode(error)})`, {
      cause: error,
    });
  }
  return ownError(error);
}
