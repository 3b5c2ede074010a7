import { NevertwiceError } from '../../../errors.ts';
import type { Executor, HandleGuard } from './executor.ts';

/** What we call on PGlite's transaction. */
interface PgliteTransactionLike {
  query<T>(text: string, values?: any[]): Promise<{ rows: T[] }>;
}
interface PgliteLike<Tx extends PgliteTransactionLike> {
  transaction<R>(work: (tx: Tx) => Promise<R>): Promise<R>;
}

/** Runs the PostgreSQL store on PGlite, PostgreSQL inside the process: `postgresStore(pglite(new PGlite()))`. One connection. */
export function pglite<Tx extends PgliteTransactionLike>(db: PgliteLike<Tx>): Executor<Tx> {
  return {
    name: 'pglite',
    connections: 1,
    transaction: work => db.transaction(work),
    query: async (tx, text, values) => ({
      rows: (await tx.query<Record<string, unknown>>(text, values as any[])).rows,
    }),
    guarded: guardedTransaction,
  };
}

function guardedTransaction<Tx extends PgliteTransactionLike>(tx: Tx, guard: HandleGuard): Tx {
  return new Proxy(tx, {
    get(target, property) {
      const value = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (property === 'rollback') {
          throw new NevertwiceError(
            'NT_TX_FORBIDDEN',
            'a handler may not roll back by hand: throw, and everything is rolled back',
          );
        }
        if (property === 'query' || property === 'exec') {
          return guard.track(String(args[0]), () => Reflect.apply(value, target, args) as Promise<unknown>);
        }
        if (property === 'sql') {
          return guard.track(
            (args[0] as string[]).join('?'),
            () => Reflect.apply(value, target, args) as Promise<unknown>,
          );
        }
        guard.assertOpen();
        return Reflect.apply(value, target, args);
      };
    },
  });
}
