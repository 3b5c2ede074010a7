import { AsyncLocalStorage } from 'node:async_hooks';
import { NevertwiceError } from '../../errors.ts';

interface Level {
  readonly of: Nesting;
  readonly outer: Level | undefined;
}

/** The levels that the running code is inside of, so that nesting and overlapping can be told apart. */
const levels = new AsyncLocalStorage<Level>();

/**
 * Savepoints of one transaction are a stack in the database, so they may nest but not overlap: with two side by side,
 * undoing the first would also undo the second, which has told its caller that it succeeded.
 */
export class Nesting {
  readonly #stack: Level[] = [];

  /** Runs `work` one level deeper. Rejects with NT_TX_FORBIDDEN when another level was opened beside it. */
  async deeper<R>(work: () => Promise<R>): Promise<R> {
    const outer = levels.getStore();
    if (this.#stack.at(-1) !== this.#innermost(outer)) throw overlapping();
    const level: Level = { of: this, outer };
    this.#stack.push(level);
    try {
      return await levels.run(level, work);
    } finally {
      const at = this.#stack.indexOf(level);
      if (at !== -1) this.#stack.length = at;
    }
  }

  #innermost(from: Level | undefined): Level | undefined {
    for (let level = from; level !== undefined; level = level.outer) if (level.of === this) return level;
    return undefined;
  }
}

function overlapping(): NevertwiceError {
  return new NevertwiceError(
    'NT_TX_FORBIDDEN',
    'two savepoints of one transaction overlap, and undoing one would undo the other; await each before the next',
  );
}
