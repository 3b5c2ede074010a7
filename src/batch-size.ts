interface Measured {
  readonly count: number;
  readonly ms: number;
}

/** Two batches tell what a message costs beside what a transaction costs only when their sizes differ by so much. */
const APART = 1.5;

/**
 * How many deliveries the next transaction takes: as many as the handler is expected to do within the time budget.
 * Grows at most twofold a step, so that one fast batch does not lead to a slow one; shrinks at once.
 */
export class BatchSize {
  readonly #max: number;
  readonly #budgetMs: number;
  #next: number;
  #msEach: number | undefined;
  #last: Measured | undefined;
  /** The last batch of quite another size. */
  #other: Measured | undefined;

  constructor(options: { max: number; budgetMs: number }) {
    this.#max = options.max;
    this.#budgetMs = options.budgetMs;
    this.#next = Math.min(options.max, 64);
  }

  get next(): number {
    return this.#next;
  }

  /** Learns from a batch of `count` deliveries that took `ms`. */
  measured(count: number, ms: number): void {
    if (count === 0) return;
    const over = ms > this.#budgetMs;
    const more = this.#more({ count, ms });
    const each = over ? Math.min(ms / count, more ?? Number.POSITIVE_INFINITY) : ms / count;
    // Half the weight to the newest: a handler that turned slow is believed within two batches.
    this.#msEach = this.#msEach === undefined ? each : (this.#msEach + each) / 2;
    const fitting = Math.floor(this.#budgetMs / Math.max(this.#msEach, each, 0.001));
    // A batch that was not full says little about larger ones.
    const most = count < this.#next ? this.#next : this.#next * 2;
    // The next one is to tell whether a smaller one takes less.
    const limit = over && more === undefined ? Math.floor(count / APART) : most;
    this.#next = Math.max(1, Math.min(this.#max, fitting, limit));
  }

  /**
   * What one delivery more takes, as two batches of different sizes tell; undefined while there are none. Without what a
   * transaction takes however small it is (a commit on a slow disk, a replica that is waited for): over the budget, that
   * taken for the deliveries' own made each batch smaller than the one before, down to one, and took no less of it.
   */
  #more(now: Measured): number | undefined {
    if (this.#last !== undefined && areApart(this.#last, now)) this.#other = this.#last;
    this.#last = now;
    if (this.#other === undefined || !areApart(this.#other, now)) return undefined;
    return Math.max((now.ms - this.#other.ms) / (now.count - this.#other.count), 0);
  }
}

function areApart(a: Measured, b: Measured): boolean {
  return Math.max(a.count, b.count) >= APART * Math.min(a.count, b.count);
}
