import { classifyFailure, failureCode } from '../../../core/failures.ts';
import { NevertwiceError } from '../../../errors.ts';

interface Query {
  readonly active?: boolean;
  /** What its `cancel()` calls, without taking the outcome. */
  readonly canceller?: ((query: Query) => PromiseLike<unknown>) | null;
}

/** Shared by a transaction and the savepoints that its handler opens itself. */
interface Shared {
  readonly sent: Set<Query>;
  gone: { readonly error: unknown } | undefined;
}

/**
 * What happens on one transaction of postgres.js. Version 3.4 throws outside of any promise, which ends the process, when
 * anything is sent on a connection that has closed, its own ROLLBACK included; so nothing is, and work that ends later
 * than its connection never settles: `begin` has rejected by then, and nobody waits.
 */
export class TransactionState<Tx extends object> {
  readonly #scopes: Tx[];
  readonly #shared: Shared;

  constructor(tx: Tx, shared: Shared = { sent: new Set(), gone: undefined }) {
    this.#scopes = [tx];
    this.#shared = shared;
  }

  /** Where queries go now: the transaction, or the innermost savepoint of the context. */
  get scope(): Tx {
    return this.#scopes.at(-1)!;
  }

  /** The same transaction as seen from inside a savepoint that the handler opened itself. */
  nested(inner: Tx): TransactionState<Tx> {
    return new TransactionState(inner, this.#shared);
  }

  inScope<R>(inner: Tx, work: () => Promise<R>): Promise<R> {
    this.#scopes.push(inner);
    const done = work().finally(() => this.#scopes.splice(this.#scopes.indexOf(inner), 1));
    return this.whileConnected(done);
  }

  whileConnected<R>(work: Promise<R>): Promise<R> {
    return new Promise((resolve, reject) => {
      work.then(
        result => {
          if (this.#shared.gone === undefined) resolve(result);
        },
        // A turn later the client has said whether it was its connection that failed.
        error =>
          setImmediate(() => {
            if (this.#shared.gone === undefined) reject(error);
          }),
      );
    });
  }

  assertConnected(): void {
    const { gone } = this.#shared;
    if (gone === undefined) return;
    throw new NevertwiceError('NT_STORE_DOWN', 'the connection to PostgreSQL was lost; nothing was committed', {
      cause: gone.error,
    });
  }

  ended(error: unknown): void {
    this.#shared.gone ??= { error };
  }

  /** Remembers a query until it has ended. Its own `then` would send it, so the one that all promises share is called. */
  follow(query: unknown): Promise<unknown> | undefined {
    if (!(query instanceof Promise)) return undefined;
    const { sent } = this.#shared;
    sent.add(query as Query);
    const settled: Promise<unknown> = Promise.prototype.then.call(
      query,
      () => void sent.delete(query as Query),
      error => {
        sent.delete(query as Query);
        if (isClosed(error)) this.ended(error);
        throw error;
      },
    );
    settled.catch(() => undefined);
    return settled;
  }

  /** Tells the server to stop what it runs. */
  cancel(): void {
    for (const query of this.#shared.sent) {
      // That takes a connection of its own, which the server may refuse; then what runs is waited for.
      if (query.active === true) query.canceller?.(query).then(undefined, () => undefined);
    }
  }
}

/** By a code of the network or of the client. The server's own begin with a digit, and it may well go on after them. */
function isClosed(error: unknown): boolean {
  return classifyFailure(error) === 'outage' && !/^(?:\d|F0)/.test(failureCode(error) ?? '');
}
