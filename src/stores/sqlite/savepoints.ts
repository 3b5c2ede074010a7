import { AsyncLocalStorage } from 'node:async_hooks';
import { NevertwiceError } from '../../errors.ts';
import type { TransactionGuard } from '../sql/guard.ts';
import type { Connection } from './connection.ts';

interface Level {
  readonly of: Savepoints;
  readonly depth: number;
  readonly outer: Level | undefined;
}

const levels = new AsyncLocalStorage<Level>();

/**
 * Savepoints of one transaction. They are a stack in the database, so they may nest but not overlap: with two side by
 * side, undoing the first would also undo the second, which has told its caller that it succeeded.
 */
export class Savepoints {
  readonly #guard: TransactionGuard;
  readonly #connection: Pick<Connection, 'exec' | 'inTransaction'>;
  #depth = 0;

  constructor(guard: TransactionGuard, connection: Pick<Connection, 'exec' | 'inTransaction'>) {
    this.#guard = guard;
    this.#connection = connection;
  }

  /** Runs `work`; when it throws, what was written since is undone and the error goes on. */
  async run<R>(work: () => Promise<R>): Promise<R> {
    const outer = levels.getStore();
    this.#guard.assertOpen();
    if (this.#depthOf(outer) !== this.#depth) throw overlapping();
    const depth = this.#depth + 1;
    const name = `nevertwice_${depth}`;
    this.#send(`SAVEPOINT ${name}`);
    this.#depth = depth;
    try {
      const result = await levels.run({ of: this, depth, outer }, work);
      if (this.#depth !== depth) throw overlapping();
      this.#send(`RELEASE ${name}`);
      return result;
    } catch (error) {
      // When the transaction itself is gone, there is nothing left to undo, and the first error counts.
      const there = !this.#guard.isClosed && this.#connection.inTransaction;
      if (there) this.#send(`ROLLBACK TO ${name}; RELEASE ${name}`);
      throw error;
    } finally {
      this.#depth = depth - 1;
    }
  }

  #depthOf(level: Level | undefined): number {
    for (let at = level; at !== undefined; at = at.outer) if (at.of === this) return at.depth;
    return 0;
  }

  #send(sql: string): void {
    this.#guard.run(sql, () => {
      if (!this.#connection.inTransaction) throw this.#guard.abortedError();
      this.#connection.exec(sql);
    });
  }
}

function overlapping(): NevertwiceError {
  return new NevertwiceError(
    'NT_TX_FORBIDDEN',
    'two savepoints of one transaction overlap, and undoing one would undo the other; await each before the next',
  );
}
