/**
 * How many deliveries the next transaction takes: as many as the handler is expected to do within the time budget.
 * Grows at most twofold a step, so that one fast batch does not lead to a slow one; shrinks at once.
 */
export class BatchSize {
  readonly #max: number;
  readonly #budgetMs: number;
  #next: number;
  #msEach: number | undefined;

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
    const each = ms / count;
    // Half the weight to the newest: a handler that turned slow is believed within two batches.
    this.#msEach = this.#msEach === undefined ? each : (this.#msEach + each) / 2;
    const fitting = Math.floor(this.#budgetMs / Math.max(this.#msEach, each, 0.001));
    // A batch that was not full says little about larger ones.
    const limit = count < this.#next ? this.#next : this.#next * 2;
    this.#next = Math.max(1, Math.min(this.#max, fitting, limit));
  }
}
