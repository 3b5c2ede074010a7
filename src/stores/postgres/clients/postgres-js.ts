import type { Executor, HandleGuard } from './executor.ts';

/** What we call on postgres.js: the tagged function that `postgres()` returns, and the one inside `begin`. */
interface TransactionSqlLike {
  unsafe(text: string, values?: any, options?: { prepare?: boolean }): PromiseLike<ArrayLike<any>>;
}
interface PostgresJsLike<Tx extends TransactionSqlLike> {
  begin<R>(work: (sql: Tx) => R | Promise<R>): Promise<any>;
  readonly options?: { readonly max?: number };
}

/** Runs the PostgreSQL store on postgres.js: `postgresStore(postgresJs(postgres(url)))`. The handle is its `TransactionSql`. */
export function postgresJs<Tx extends TransactionSqlLike>(sql: PostgresJsLike<Tx>): Executor<Tx> {
  return {
    name: 'postgres.js',
    pipelined: true,
    ...(sql.options?.max === undefined ? {} : { connections: sql.options.max }),
    transaction: work => sql.begin(work),
    query: async (tx, text, values) => {
      // `prepare` also makes the query leave at once instead of when somebody awaits it.
      const rows = await tx.unsafe(text, values as never[], { prepare: true });
      return { rows: Array.from(rows) };
    },
    guarded: guardedSql,
  };
}

/**
 * The transaction's tagged function, watched. Its queries are lazy: they leave when awaited, and postgres.js itself
 * sends COMMIT behind whatever has left and fails the transaction when one of them failed.
 */
function guardedSql<Tx extends TransactionSqlLike>(sql: Tx, guard: HandleGuard): Tx {
  return new Proxy(sql as object, {
    apply(target, self, args: unknown[]) {
      const [first] = args;
      // A template's values never become text, so the text is the template's own parts; anything else is a helper.
      if (Array.isArray(first) && 'raw' in first) guard.admit((first as unknown as string[]).join('?'));
      else guard.assertOpen();
      return Reflect.apply(target as (...a: unknown[]) => unknown, self, args);
    },
    get(target, property) {
      const value = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (property === 'unsafe') guard.admit(String(args[0]));
        else if (property === 'savepoint') guard.admit('SAVEPOINT');
        else guard.assertOpen();
        return Reflect.apply(value, target, args);
      };
    },
  }) as Tx;
}
