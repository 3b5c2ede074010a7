import { classifyFailure, failureCode } from '../../../core/failures.ts';
import { isNevertwiceError, NevertwiceError } from '../../../errors.ts';
import { TransactionGuard } from '../../sql/guard.ts';
import {
  type BeginOptions,
  type Behind,
  type Driver,
  type Listening,
  type OpenTransaction,
  type Row,
  refuseCommitBehind,
  type TransactionEnd,
} from '../driver.ts';
import type { Statement } from '../statements.ts';
import { commitOn, laneError, NotCommitted } from './commit.ts';
import { ownError, silentConnection } from './own-statement.ts';
import { PgAside } from './pg-aside.ts';
import { cancelBackend } from './pg-cancel.ts';
import { acquire, type CheckedOut, inlined, type PgClientLike, type PgPoolLike, queryOn } from './pg-connection.ts';
import { corkUntilNextTick, guardedClient } from './pg-handle.ts';
import { listenOn } from './pg-listen.ts';
import { succeedsWithin, within } from './reply.ts';
import { inTurn } from './turns.ts';

export interface PgDriverOptions<Tx> {
  readonly isolation: 'read committed' | 'repeatable read' | 'serializable';
  readonly acquireTimeoutMs: number;
  /** Bound on our own statements, after which the connection is destroyed. */
  readonly replyTimeoutMs: number;
  /** How long a claim may wait for a live owner, which comes on top when it travels with BEGIN. */
  readonly lockMs: number;
  readonly wrap: (client: PgClientLike) => Tx;
  readonly unwrap: (tx: Tx) => PgClientLike;
  /** Keep our statements prepared on the server. */
  readonly prepare: boolean;
}

/** feature_not_supported: "cached plan must not change result type". */
const OUTDATED_PLAN = '0A000';
/** Beside it: the prepared statement is not there (DEALLOCATE, a pooler) or is there already (a pooler). */
const STALE: ReadonlySet<string> = new Set([OUTDATED_PLAN, '26000', '42P05']);

/** The `pg` pool. With `pipeline: true` on it, BEGIN and the claim travel together and overlapping handlers do too. */
export class PgDriver<Tx> implements Driver<Tx> {
  readonly name = 'pg';
  readonly overlap: true | string;
  readonly connections: number | undefined;
  readonly aside: ((statement: Statement) => Promise<readonly Row[]>) | undefined;
  readonly #pool: PgPoolLike;
  readonly #options: PgDriverOptions<Tx>;
  readonly #begin: string;
  #generation = 0;

  constructor(pool: PgPoolLike, options: PgDriverOptions<Tx>) {
    this.#pool = pool;
    this.#options = options;
    this.overlap =
      pool.options?.pipeline === true ||
      'the pool is not pipelined: create it with new Pool({ pipeline: true }), pg 8.23 or later';
    this.connections = pool.options?.max;
    if (pool.Client !== undefined) {
      const aside = new PgAside(pool, options.replyTimeoutMs);
      this.aside = statement => aside.query(statement);
    }
    listen(pool);
    this.#begin = `BEGIN ISOLATION LEVEL ${options.isolation.toUpperCase()}`;
  }

  async transaction<R>(
    begin: BeginOptions,
    work: (open: OpenTransaction<Tx>, first: readonly Row[]) => Promise<R>,
  ): Promise<R> {
    const connection = await acquire(this.#pool, this.#options.acquireTimeoutMs);
    const guard = new TransactionGuard(begin);
    const abandoned = Promise.withResolvers<never>();
    abandoned.promise.catch(() => undefined);
    const behind: Behind[] = [];
    const open = this.#openOn(connection.client, guard, {
      abandon: reason => {
        guard.close(reason);
        abandoned.reject(reason);
      },
      commitBehind: (statement, seen) => void behind.push({ statement, seen }),
      joined: false,
    });
    let first: readonly Row[] | undefined;
    let result: R;
    try {
      const { replyTimeoutMs, lockMs } = this.#options;
      first = await within(replyTimeoutMs + lockMs, this.#beginWith(connection.client, begin.first)).catch(error => {
        throw ownError(error);
      });
      // Whichever settles first: a handler that never returns must not keep its transaction, and with it its claims.
      result = await Promise.race([work(open, first), abandoned.promise]);
      if (guard.inFlight > 0) await within(replyTimeoutMs, guard.drained());
      guard.assertSeen();
    } catch (error) {
      const wasAbandoned = guard.isClosed;
      guard.close(error);
      if (first === undefined && isNevertwiceError(error, 'NT_STORE_DOWN')) {
        // What did not answer BEGIN answers no ROLLBACK, and a session on a former primary never writes again.
        connection.destroy();
        throw error;
      }
      const answered = await this.#rollback(connection, guard, wasAbandoned, this.#isStale(error));
      if (connection.lost !== undefined) throw lostConnection(connection.lost, error);
      throw answered ? error : silentConnection(error);
    }
    guard.close();
    if (connection.lost !== undefined) {
      connection.destroy();
      throw lostConnection(connection.lost, undefined);
    }
    await this.#commit(connection, guard, behind);
    return result;
  }

  get #prepareAs(): number | undefined {
    return this.#options.prepare ? this.#generation : undefined;
  }

  /** BEGIN and the claim in one round trip: pipelined, or as one text where the client cannot pipeline. */
  async #beginWith(client: PgClientLike, first: Statement | undefined): Promise<readonly Row[]> {
    if (first !== undefined && client.pipeline !== true) {
      const text = inlined(first);
      if (text !== undefined) {
        const results: unknown = await inTurn(client, () => client.query(`${this.#begin};\n${text}`));
        return (results as readonly { rows: Row[] }[])[1]!.rows;
      }
    }
    corkUntilNextTick(client);
    const begun = inTurn(client, () => client.query(this.#begin));
    if (first === undefined || client.pipeline !== true) await begun;
    const [, rows] = await Promise.all([begun, first === undefined ? [] : queryOn(client, first, this.#prepareAs)]);
    return rows;
  }

  /** Resolves only when the server said COMMIT. */
  async #commit(connection: CheckedOut, guard: TransactionGuard, behind: readonly Behind[]): Promise<void> {
    let reply: { command?: string };
    try {
      reply = await within(this.#options.replyTimeoutMs, commitOn(connection.client, behind, this.#prepareAs));
    } catch (error) {
      if (error instanceof NotCommitted) {
        if (connection.lost !== undefined || this.#isStale(error.error)) connection.destroy();
        else connection.release();
        throw failureCode(error.error) === '25P02' ? guard.abortedError() : laneError(error.error);
      }
      const failure = classifyFailure(error);
      if (connection.lost === undefined && failure !== undefined && failure !== 'outage') {
        // The server itself refused (a deferred constraint, a serialization failure): certainly rolled back.
        connection.release();
        throw error;
      }
      connection.destroy();
      throw new NevertwiceError('NT_COMMIT_UNKNOWN', 'the connection was lost before the server confirmed the commit', {
        cause: connection.lost ?? error,
      });
    }
    connection.release();
    if (reply.command !== 'COMMIT') throw guard.abortedError();
  }

  /** True when the session's prepared statements are not what this process believes: nobody else must get them. */
  #isStale(error: unknown): boolean {
    const code = failureCode(error);
    // A table that a statement reads has changed, so the plan is out of date in every session: prepare under new names.
    if (code === OUTDATED_PLAN) this.#generation++;
    return code !== undefined && STALE.has(code);
  }

  /** False when the server did not answer. The transaction is over, or ends with its connection, either way. */
  async #rollback(
    connection: CheckedOut,
    guard: TransactionGuard,
    abandoned: boolean,
    stale: boolean,
  ): Promise<boolean> {
    if (connection.lost !== undefined) {
      connection.destroy();
      return false;
    }
    const { replyTimeoutMs } = this.#options;
    try {
      // What the handler still has in flight is let finish, so that the client goes back clean; unless it was the
      // handler that overran its time: then the server is told to stop.
      const cancelled = guard.inFlight > 0 && (abandoned || !(await succeedsWithin(replyTimeoutMs, guard.drained())));
      if (cancelled) await cancelBackend(this.#pool, connection.client, replyTimeoutMs);
      const { client } = connection;
      const rolledBack = inTurn(client, () => client.query('ROLLBACK'));
      await within(replyTimeoutMs, Promise.all([guard.drained(), rolledBack]));
      // A cancel signal may still be on its way and would hit whoever got this connection next.
      if (cancelled || stale) connection.destroy();
      else connection.release();
      return true;
    } catch {
      // No answer to ROLLBACK: closing the connection makes the server roll back, and nobody else gets this client.
      connection.destroy();
      return false;
    }
  }

  join(tx: Tx): OpenTransaction<Tx> {
    const guard = new TransactionGuard({ overlap: false });
    // The caller also has his own handle.
    guard.assumeUsed();
    return this.#openOn(this.#options.unwrap(tx), guard, {
      abandon: reason => guard.close(reason),
      commitBehind: refuseCommitBehind,
      joined: true,
    });
  }

  #openOn(
    client: PgClientLike,
    guard: TransactionGuard,
    end: TransactionEnd & Pick<OpenTransaction<Tx>, 'joined'>,
  ): OpenTransaction<Tx> {
    const { wrap } = this.#options;
    let handle: { tx: Tx } | undefined;
    return {
      get tx() {
        handle ??= { tx: wrap(guardedClient(client, guard)) };
        return handle.tx;
      },
      guard,
      watched: true,
      query: async statement => {
        try {
          return await queryOn(client, statement, this.#prepareAs);
        } catch (error) {
          throw ownError(error);
        }
      },
      ...end,
    };
  }

  async query(statement: Statement): Promise<readonly Row[]> {
    const connection = await acquire(this.#pool, this.#options.acquireTimeoutMs);
    try {
      const rows = await within(this.#options.replyTimeoutMs, queryOn(connection.client, statement, undefined));
      connection.release();
      return rows;
    } catch (error) {
      const ours = ownError(error);
      // A session on a former primary never writes again.
      if (connection.lost === undefined && !isNevertwiceError(ours, 'NT_STORE_DOWN')) connection.release();
      else connection.destroy();
      throw connection.lost === undefined ? ours : lostConnection(connection.lost, error);
    }
  }

  async listen(channel: string, heard: (payload: string) => void): Promise<Listening> {
    const { acquireTimeoutMs, replyTimeoutMs } = this.#options;
    return listenOn(await acquire(this.#pool, acquireTimeoutMs), channel, heard, replyTimeoutMs);
  }
}

const listened = new WeakSet<PgPoolLike>();

/** Without a listener an idle connection that the server closes ends the whole process; `acquire` reports outages. */
function listen(pool: PgPoolLike): void {
  if (listened.has(pool)) return;
  listened.add(pool);
  pool.on?.('error', () => undefined);
}

// What the server said before it hung up decides: an administrator's command is an outage, while an idle-in-transaction
// limit that the handler overran is that handler's failure and must count as one.
function lostConnection(lost: unknown, error: unknown): unknown {
  if (classifyFailure(lost) === 'handler') return lost;
  const code = failureCode(lost);
  return new NevertwiceError(
    'NT_STORE_DOWN',
    `the connection to PostgreSQL was lost${code === undefined ? '' : ` (${code})`}; nothing was committed`,
    {
      cause: lost ?? error,
    },
  );
}
