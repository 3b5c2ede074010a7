import type { DeadLetter } from '../../ports/store.ts';

/** The dead letters of one consumer, by what makes two of them the same. */
export class MemoryDeadLetters {
  readonly #consumer: string;
  readonly #max: number;
  readonly #letters = new Map<string, DeadLetter>();
  #dropped = false;

  constructor(consumer: string, max: number) {
    this.#consumer = consumer;
    this.#max = max;
  }

  all(): readonly DeadLetter[] {
    return [...this.#letters.values()];
  }

  add(letter: DeadLetter): void {
    this.#letters.set(letter.dedupe, letter);
    for (const dedupe of this.#letters.keys()) {
      if (this.#letters.size <= this.#max) return;
      this.#letters.delete(dedupe);
      this.#warn();
    }
  }

  blocked(keys: readonly string[]): ReadonlySet<string> {
    const held = new Set(this.all().map(letter => letter.key));
    return new Set(keys.filter(key => held.has(key)));
  }

  #warn(): void {
    if (this.#dropped) return;
    this.#dropped = true;
    process.emitWarning(
      `${this.#consumer}: more than ${this.#max} dead letters in memory, the oldest are dropped; use a store that keeps them`,
      { code: 'NT_DEAD_LETTERS_DROPPED' },
    );
  }
}
