/** A bell that any number of waiters hear. What is asked for before something is looked at misses no ring. */
export class Wake {
  #next = Promise.withResolvers<void>();

  ring(): void {
    this.#next.resolve();
    this.#next = Promise.withResolvers();
  }

  /** Resolves at the next ring. */
  next(): Promise<void> {
    return this.#next.promise;
  }
}
