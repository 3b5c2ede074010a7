import { NevertwiceError } from '../../../errors.ts';
import type { Executor, HandleGuard } from './executor.ts';

/** What we call on postgres.js: the tagged function that `postgres()` returns, and the one inside `begin`. */
interface TransactionSqlLike {
  unsafe(text: string, values?: any, options?: { prepare?: boolean }): PromiseLike<ArrayLike<any>>;
  savepoint(work: (sql: any) => unknown): PromiseLike<any>;
}
export interface PostgresJsLike {
  begin(work: (sql: any) => unknown): Promise<any>;
  readonly options?: { readonly max?: number };
}

/** The handle that its `begin` gives: `TransactionSql`. */
export type PostgresJsTx<S> = S extends {
  begin: { (work: (sql: infer Tx) => any): any; (options: string, work: any): any };
}
  ? Tx
  : never;

type Queries = Set<{ readonly active?: boolean; cancel?(): unknown }>;

/**
 * Runs the PostgreSQL store on postgres.js: `postgresStore(postgresJs(postgres(url)))`. The handle is its
 * `TransactionSql`. A query that is never awaited is never sent, as always with postgres.js.
 */
export function postgresJs<S extends PostgresJsLike>(sql: S): Executor<PostgresJsTx<S>>;
export function postgresJs(sql: PostgresJsLike): Executor<TransactionSqlLike> {
  const transactions = new WeakMap<
    TransactionSqlLike,
    { readonly scopes: TransactionSqlLike[]; readonly sent: Queries }
  >();
  const of = (tx: TransactionSqlLike) => {
    const known = transactions.get(tx) ?? { scopes: [tx], sent: new Set() };
    transactions.set(tx, known);
    return known;
  };
  return {
    name: 'postgres.js',
    pipelined: true,
    ...(sql.options?.max === undefined ? {} : { connections: sql.options.max }),
    transaction: work => sql.begin(work),
    query: async (tx, text, values) => {
      const { scopes, sent } = of(tx);
      // `prepare` keeps the statement on the server.
      const query = scopes.at(-1)!.unsafe(text, values, { prepare: true });
      void follow(query, sent);
      return { rows: Array.from(await query) };
    },
    // It fails a transaction in which any query failed, unless the query went through the scope of a savepoint.
    savepoint: (tx, work) => {
      const { scopes } = of(tx);
      return scopes.at(-1)!.savepoint(async inner => {
        scopes.push(inner);
        try {
          return await work();
        } finally {
          scopes.splice(scopes.indexOf(inner), 1);
        }
      }) as Promise<any>;
    },
    cancel: tx => {
      for (const query of of(tx).sent) if (query.active === true) query.cancel?.();
    },
    guarded: (tx, guard) => {
      const { scopes, sent } = of(tx);
      return guardedSql(tx, () => scopes.at(-1)!, guard, sent);
    },
  };
}

/**
 * The transaction's tagged function, watched. Its queries are lazy: they leave when awaited, and postgres.js itself
 * sends COMMIT behind whatever has left and fails the transaction when one of them failed.
 */
function guardedSql(
  sql: TransactionSqlLike,
  scope: () => TransactionSqlLike,
  guard: HandleGuard,
  sent: Queries,
): TransactionSqlLike {
  const watched = (text: string, query: unknown) => {
    const settled = follow(query, sent);
    if (settled !== undefined) guard.watch(text, settled);
    return query;
  };
  return new Proxy(sql, {
    apply(_, self, args: unknown[]) {
      const [first] = args;
      const call = () => Reflect.apply(scope() as unknown as (...a: unknown[]) => unknown, self, args);
      // A template's values never become text, so the text is the template's own parts; anything else is a helper.
      if (!Array.isArray(first) || !('raw' in first)) {
        guard.assertOpen();
        return call();
      }
      const text = (first as unknown as string[]).join('?');
      guard.admit(text);
      return watched(text, call());
    },
    get(_, property) {
      const value = Reflect.get(scope(), property);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        const call = () => Reflect.apply(value, scope(), args);
        switch (property) {
          case 'unsafe':
            guard.admit(String(args[0]));
            return watched(String(args[0]), call());
          case 'savepoint':
            guard.admit('SAVEPOINT postgres_js');
            args = args.map(arg =>
              typeof arg === 'function'
                ? guardedScope(arg as (inner: TransactionSqlLike) => unknown, guard, sent)
                : arg,
            );
            return call();
          case 'prepare':
            throw new NevertwiceError('NT_TX_FORBIDDEN', 'a handler may not prepare the transaction for two phases');
          default:
            guard.assertOpen();
            return call();
        }
      };
    },
  });
}

/** A savepoint's callback, whose own tagged function is watched like the transaction's. */
function guardedScope(
  work: (inner: TransactionSqlLike) => unknown,
  guard: HandleGuard,
  sent: Queries,
): (inner: TransactionSqlLike) => unknown {
  return inner => work(guardedSql(inner, () => inner, guard, sent));
}

/** Remembers a query until it has ended. Its own `then` would send it, so the one that all promises share is called. */
function follow(query: unknown, sent: Queries): Promise<unknown> | undefined {
  if (!(query instanceof Promise)) return undefined;
  const known = query as Promise<unknown> & { active?: boolean };
  sent.add(known);
  const ended = () => void sent.delete(known);
  const settled: Promise<unknown> = Promise.prototype.then.call(known, undefined, undefined);
  Promise.prototype.then.call(settled, ended, ended);
  return settled;
}
