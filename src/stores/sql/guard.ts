import { failureCode } from '../../core/failures.ts';
import { NevertwiceError } from '../../errors.ts';
import { FailedStatement } from './failed-statement.ts';
import { type StatementKind, savepointName, statementKinds, statementSummary } from './statements.ts';

/**
 * More than 64 open subtransactions overflow PostgreSQL's per-backend cache and slow the whole server down, replicas
 * most of all, so no transaction of this library holds more.
 */
export const MAX_SAVEPOINTS = 64;

const OVERLAP_REFUSES: ReadonlyMap<StatementKind, string> = new Map<StatementKind, string>([
  ['savepoint', 'SAVEPOINT'],
  ['rollback-to', 'ROLLBACK TO'],
  ['release', 'RELEASE'],
  ['set-local', 'SET LOCAL'],
  ['cursor', 'a cursor'],
]);

/**
 * Watches everything that handlers send through one transaction's handle: refuses what would end or split the
 * transaction, counts what is in flight, remembers the first failed statement, and dies with the transaction.
 */
export class TransactionGuard {
  readonly #overlap: boolean;
  #closed: { readonly reason: unknown } | undefined;
  #inFlight = 0;
  #whenIdle: (() => void)[] = [];
  #firstFailure: { readonly error: unknown; readonly statement: string } | undefined;
  #used = 0;
  #savepoints = 0;
  readonly #ownSavepoints = new Set<string>();
  readonly #refused: FailedStatement[] = [];
  /** Called before a savepoint is set, so that what waits to be written is written outside of it. */
  beforeSavepoint: (() => void) | undefined;

  constructor(options: { overlap: boolean }) {
    this.#overlap = options.overlap;
  }

  get used(): number {
    return this.#used;
  }

  /** There is a way to the transaction that nothing is seen of: whether it is used nobody can tell. */
  assumeUsed(): void {
    this.#used++;
  }

  /** Statements sent through the handle that have not ended yet. */
  get inFlight(): number {
    return this.#inFlight;
  }

  get savepoints(): number {
    return this.#savepoints;
  }

  /** What is written now may still be undone by this message without the transaction ending. */
  get inSavepoint(): boolean {
    return this.#ownSavepoints.size > 0;
  }

  /** The first statement that failed and was not undone by a rollback to a savepoint since. */
  get firstFailure(): { readonly error: unknown; readonly statement: string } | undefined {
    return this.#firstFailure;
  }

  /** Throws NT_TX_CLOSED or NT_TX_FORBIDDEN when `text` may not run on the handle now. */
  admit(text: string): void {
    this.assertOpen();
    this.#used++;
    for (const kind of statementKinds(text)) if (kind !== 'plain') this.#admitSpecial(kind, text);
  }

  assertOpen(): void {
    if (this.#closed !== undefined) {
      throw new NevertwiceError(
        'NT_TX_CLOSED',
        'the transaction of this message has ended; await every statement inside the handler and do not keep the handle',
        { cause: this.#closed.reason },
      );
    }
  }

  #admitSpecial(kind: StatementKind, text: string): void {
    if (kind === 'ends-transaction') {
      throw new NevertwiceError(
        'NT_TX_FORBIDDEN',
        'a handler may not begin, commit or roll back: its writes commit together with the claim; throw to roll back',
      );
    }
    const refused = this.#overlap ? OVERLAP_REFUSES.get(kind) : undefined;
    if (refused !== undefined) {
      throw new NevertwiceError(
        'NT_TX_FORBIDDEN',
        `${refused} is refused while handlers overlap: it would act on the writes of the others; drop overlap or use handleBatch`,
      );
    }
    if (kind === 'savepoint') this.#countSavepoint(text);
    if (kind === 'rollback-to' && !this.#ownSavepoints.has(savepointName(text))) {
      throw new NevertwiceError(
        'NT_TX_FORBIDDEN',
        'ROLLBACK TO goes to a savepoint that this message did not set: it would undo the writes of messages before it; set one first',
      );
    }
  }

  #countSavepoint(text: string): void {
    if (this.#savepoints >= MAX_SAVEPOINTS) {
      throw new NevertwiceError('NT_TX_FORBIDDEN', `a transaction may hold at most ${MAX_SAVEPOINTS} savepoints`);
    }
    if (!this.inSavepoint) this.beforeSavepoint?.();
    this.#savepoints++;
    this.#ownSavepoints.add(savepointName(text));
  }

  /** The next message's handler begins: savepoints of the one before are out of its reach. */
  nextMessage(): void {
    if (this.#ownSavepoints.size > 0) this.#ownSavepoints.clear();
  }

  /** Runs an asynchronous statement, or rejects when it is refused; the transaction stays open until it has ended. */
  track<R>(text: string, run: () => PromiseLike<R>): Promise<R> {
    try {
      this.admit(text);
    } catch (error) {
      // As a rejection: whoever calls a client's `query` looks for its errors there.
      return this.refuse(error);
    }
    this.#inFlight++;
    const promise = asPromise(run);
    promise.then(
      () => this.#ended(undefined, text),
      error => this.#ended({ error }, text),
    );
    return promise;
  }

  /** A statement that never reached the database. When nobody looks at the promise, `assertSeen` throws. */
  refuse(error: unknown): Promise<never> {
    // Nothing is left to roll back once the transaction has ended, so only the caller's own `await` can tell.
    if (this.isClosed) return Promise.reject(error);
    const refused = new FailedStatement(error);
    this.#refused.push(refused);
    return refused;
  }

  /** Throws NT_TX_ABORTED when a refused statement was never awaited: its effect is missing, and nobody knows. */
  assertSeen(): void {
    const unseen = this.#refused.find(refused => !refused.seen);
    if (unseen === undefined) return;
    throw new NevertwiceError(
      'NT_TX_ABORTED',
      'a statement was refused and its promise was never awaited, so everything was rolled back; await every statement',
      { cause: unseen.error },
    );
  }

  /** Remembers how an admitted statement ends, for clients that wait for their statements themselves. */
  watch(text: string, outcome: PromiseLike<unknown>): void {
    outcome.then(
      () => this.undone(),
      error => this.#failed(error, text),
    );
  }

  /** The database takes statements again: a rollback to a savepoint has undone what had failed. */
  undone(): void {
    this.#firstFailure = undefined;
  }

  /** Runs an admitted synchronous statement. */
  run<R>(text: string, run: () => R): R {
    this.admit(text);
    try {
      const result = run();
      this.#firstFailure = undefined;
      return result;
    } catch (error) {
      this.#failed(error, text);
      throw error;
    }
  }

  #ended(failure: { error: unknown } | undefined, text: string): void {
    if (failure === undefined) this.#firstFailure = undefined;
    else this.#failed(failure.error, text);
    this.#inFlight--;
    if (this.#inFlight === 0) for (const wake of this.#whenIdle.splice(0)) wake();
  }

  #failed(error: unknown, text: string): void {
    this.#firstFailure ??= { error, statement: statementSummary(text) };
  }

  /** Resolves when nothing sent through the handle is in flight any more. */
  async drained(): Promise<void> {
    while (this.#inFlight > 0) await new Promise<void>(resolve => this.#whenIdle.push(resolve));
  }

  /** Every later use of the handle throws NT_TX_CLOSED with `reason` as its cause. */
  close(reason?: unknown): void {
    this.#closed ??= { reason };
  }

  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** The error for a commit that the server turned into a rollback. */
  abortedError(): NevertwiceError {
    const failure = this.#firstFailure;
    const what =
      failure === undefined
        ? 'a statement failed'
        : `a statement failed (${failureCode(failure.error) ?? 'no code'} in "${failure.statement}")`;
    return new NevertwiceError(
      'NT_TX_ABORTED',
      `${what}, the handler went on, and the database rolled everything back; let the error out of the handler or wrap the statement in context.savepoint()`,
      { cause: failure?.error },
    );
  }
}

/** The outcome of `run` as a promise of the plain kind, which it is for most clients: one object less a statement. */
function asPromise<R>(run: () => PromiseLike<R>): Promise<R> {
  try {
    const outcome = run();
    if (outcome.constructor === Promise) return outcome as Promise<R>;
    // At once, and not by Promise.resolve, which calls `then` a tick later: some clients send only when it is called.
    return new Promise((resolve, reject) => outcome.then(resolve, reject));
  } catch (error) {
    return Promise.reject(error);
  }
}
