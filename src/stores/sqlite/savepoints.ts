import { AsyncLocalStorage } from 'node:async_hooks';
import { NevertwiceError } from '../../errors.ts';
import type { TransactionGuard } from '../sql/guard.ts';
import type { Connection } from './connection.ts';

interface Level {
  readonly of: Savepoints;
  readonly outer: Level | undefined;
}

/** The savepoints that the running code is inside of, so that nesting and overlapping can be told apart. */
const levels = new AsyncLocalStorage<Level>();

/**
 * Savepoints of one transaction. They are a stack in the database, so they may nest but not overlap: with two side by
 * side, undoing the first would also undo the second, which has told its caller that it succeeded.
 */
export class Savepoints {
  readonly #guard: TransactionGuard;
  readonly #connection: Pick<Connection, 'exec' | 'inTransaction'>;
  readonly #stack: Level[] = [];
  #made = 0;

  constructor(guard: TransactionGuard, connection: Pick<Connection, 'exec' | 'inTransaction'>) {
    this.#guard = guard;
    this.#connection = connection;
  }

  /** Runs `work`; when it throws, what was written since is undone and the error goes on. */
  async run<R>(work: () => Promise<R>): Promise<R> {
    this.#guard.assertOpen();
    const outer = levels.getStore();
    if (this.#stack.at(-1) !== this.#own(outer)) throw overlapping();
    const level: Level = { of: this, outer };
    const name = `nevertwice_${++this.#made}`;
    this.#send(`SAVEPOINT ${name}`);
    this.#stack.push(level);
    try {
      const result = await levels.run(level, work);
      if (this.#stack.at(-1) !== level) throw overlapping();
      this.#send(`RELEASE ${name}`);
      return result;
    } catch (error) {
      // When the transaction or an outer savepoint is gone, there is nothing left to undo, and the first error counts.
      const there = !this.#guard.isClosed && this.#connection.inTransaction && this.#stack.includes(level);
      if (there) this.#send(`ROLLBACK TO ${name}; RELEASE ${name}`);
      throw error;
    } finally {
      const at = this.#stack.indexOf(level);
      if (at !== -1) this.#stack.length = at;
    }
  }

  #own(innermost: Level | undefined): Level | undefined {
    for (let level = innermost; level !== undefined; level = level.outer) if (level.of === this) return level;
    return undefined;
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
