import type { LetterFilter, LetterPage, Letters, StoredLetter } from '../../ports/letters.ts';
import type { DeadLetter } from '../../ports/store.ts';
import { begun, pageOf } from '../letters-in-memory.ts';

/** The open dead letters of one consumer, by what makes two of them the same. */
export class MemoryDeadLetters {
  readonly #consumer: string;
  readonly #max: number;
  readonly #letters = new Map<string, StoredLetter>();
  #made = 0;
  #dropped = false;

  constructor(consumer: string, max: number) {
    this.#consumer = consumer;
    this.#max = max;
  }

  all(): readonly StoredLetter[] {
    return [...this.#letters.values()];
  }

  add(letter: DeadLetter): void {
    const known = this.#letters.get(letter.dedupe);
    const now = new Date();
    this.#letters.set(letter.dedupe, {
      ...letter,
      id: known?.id ?? String(++this.#made),
      consumer: this.#consumer,
      firstAt: known?.firstAt ?? now,
      lastAt: now,
      revision: known?.revision ?? 0,
      history: known?.history ?? [],
      original: known?.original,
      outcome: undefined,
      closedAt: undefined,
    });
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

  list(filter: LetterFilter, page: LetterPage): readonly StoredLetter[] {
    return pageOf(this.all(), filter, page, Date.now());
  }

  find(id: string): StoredLetter | undefined {
    return this.all().find(letter => letter.id === id);
  }

  replace(letter: StoredLetter): void {
    this.#letters.set(letter.dedupe, letter);
  }

  remove({ dedupe }: StoredLetter): void {
    this.#letters.delete(dedupe);
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

/** One that is closed is gone. */
export function memoryLetters(of: (consumer: string) => MemoryDeadLetters | undefined): Letters {
  return {
    list: async (consumer, filter, page) => of(consumer)?.list(filter, page) ?? [],
    async begin(consumer, id, { by, reason }, edit) {
      const letters = of(consumer);
      const letter = letters?.find(id);
      if (letters === undefined || letter === undefined) return undefined;
      const at = new Date().toISOString();
      const changed = begun(
        letter,
        { at, ...(by === undefined ? {} : { by }), ...(reason === undefined ? {} : { reason }) },
        edit,
      );
      letters.replace(changed);
      return changed;
    },
    async close(consumer, id) {
      const letters = of(consumer);
      const letter = letters?.find(id);
      if (letter !== undefined) letters!.remove(letter);
      return letter !== undefined;
    },
  };
}
