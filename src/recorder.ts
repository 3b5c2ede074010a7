/**
 * Records what handlers have done while the next one is at work: waiting for the store after each would cost a lane a round
 * trip a message. One call at a time, with all that was done by then; the first leaves at once, since what is done and not
 * recorded is what a crash would double.
 */
export class Recorder<E> {
  readonly #record: (entries: readonly E[]) => Promise<void>;
  #waiting: E[] = [];
  #running: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(record: (entries: readonly E[]) => Promise<void>) {
    this.#record = record;
  }

  /** True when a call has failed: what is added now waits for the next time. */
  get failed(): boolean {
    return this.#failure !== undefined;
  }

  add(entries: readonly E[]): void {
    this.#waiting.push(...entries);
    this.#running ??= this.#run();
  }

  /** Resolves when all is recorded; rejects with what failed. */
  async ended(): Promise<void> {
    await this.#running;
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0 && !this.failed) {
      const entries = this.#waiting;
      this.#waiting = [];
      try {
        await this.#record(entries);
      } catch (error) {
        this.#failure = { error };
      }
    }
    this.#running = undefined;
  }
}
