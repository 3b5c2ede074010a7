import { NevertwiceError } from '../../../errors.ts';
import type { Executor, HandleGuard } from './executor.ts';
import { TransactionState } from './postgres-js-state.ts';

/** What we call on postgres.js: the tagged function that `postgres()` returns, and the one inside `begin`. */
export interface TransactionSqlLike {
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

/**
 * Runs the PostgreSQL store on postgres.js: `postgresStore(postgresJs(postgres(url)))`. The handle is its
 * `TransactionSql`. A query that is never awaited is never sent, as always with postgres.js.
 */
export function postgresJs<S extends PostgresJsLike>(sql: S): Executor<PostgresJsTx<S>>;
export function postgresJs(sql: PostgresJsLike): Executor<TransactionSqlLike> {
  const states = new WeakMap<TransactionSqlLike, TransactionState<TransactionSqlLike>>();
  const stateOf = (tx: TransactionSqlLike) => {
    const state = states.get(tx) ?? new TransactionState(tx);
    states.set(tx, state);
    return state;
  };
  return {
    name: 'postgres.js',
    pipelined: true,
    ...(sql.options?.max === undefined ? {} : { connections: sql.options.max }),
    transaction: async work => {
      let state: TransactionState<TransactionSqlLike> | undefined;
      try {
        return await sql.begin(tx => {
          state = stateOf(tx);
          return state.whileConnected(work(tx));
        });
      } catch (error) {
        state?.ended(error);
        throw error;
      }
    },
    query: async (tx, text, values) => {
      const state = stateOf(tx);
      state.assertConnected();
      // `prepare` keeps the statement on the server.
      const query = state.scope.unsafe(text, values, { prepare: true });
      void state.follow(query);
      return { rows: Array.from(await query) };
    },
    // It fails a transaction in which any query failed, unless the query went through the scope of a savepoint.
    savepoint: (tx, work) => {
      const state = stateOf(tx);
      state.assertConnected();
      return state.scope.savepoint(inner => state.inScope(inner, work)) as Promise<any>;
    },
    cancel: tx => stateOf(tx).cancel(),
    guarded: (tx, guard) => guardedSql(tx, stateOf(tx), guard),
  };
}

/**
 * The transaction's tagged function, watched. Its queries are lazy: they leave when awaited, and postgres.js itself
 * sends COMMIT behind whatever has left and fails the transaction when one of them failed.
 */
function guardedSql(
  sql: TransactionSqlLike,
  state: TransactionState<TransactionSqlLike>,
  guard: HandleGuard,
): TransactionSqlLike {
  const admit = (text: string) => {
    guard.admit(text);
    state.assertConnected();
  };
  const watched = (text: string, query: unknown) => {
    const settled = state.follow(query);
    if (settled !== undefined) guard.watch(text, settled);
    return query;
  };
  return new Proxy(sql, {
    apply(_, self, args: unknown[]) {
      const [first] = args;
      const call = () => Reflect.apply(state.scope as unknown as (...a: unknown[]) => unknown, self, args);
      // A template's values never become text, so the text is the template's own parts; anything else is a helper.
      if (!Array.isArray(first) || !('raw' in first)) {
        guard.assertOpen();
        return call();
      }
      const text = (first as unknown as string[]).join('?');
      admit(text);
      return watched(text, call());
    },
    get(_, property) {
      const value = Reflect.get(state.scope, property);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        switch (property) {
          case 'unsafe':
            admit(String(args[0]));
            return watched(String(args[0]), Reflect.apply(value, state.scope, args));
          case 'savepoint':
            admit('SAVEPOINT postgres_js');
            return Reflect.apply(
              value,
              state.scope,
              args.map(arg => (typeof arg === 'function' ? guardedScope(arg as Scoped, state, guard) : arg)),
            );
          case 'prepare':
            throw new NevertwiceError('NT_TX_FORBIDDEN', 'a handler may not prepare the transaction for two phases');
          default:
            guard.assertOpen();
            return Reflect.apply(value, state.scope, args);
        }
      };
    },
  });
}

type Scoped = (inner: TransactionSqlLike) => unknown;

/** A savepoint's callback, whose own tagged function is watched like the transaction's. */
function guardedScope(work: Scoped, outer: TransactionState<TransactionSqlLike>, guard: HandleGuard): Scoped {
  return inner => {
    const state = outer.nested(inner);
    return state.whileConnected((async () => work(guardedSql(inner, state, guard)))());
  };
}
