/** How often other processes are told at most. */
const EVERY_MS = 5;

/** Signs that rows were committed: at once to those who listen in this process, and now and then to everybody else. */
export class Signs {
  readonly #tellOthers: () => Promise<void>;
  readonly #listeners = new Set<() => void>();
  /** A call is under way or was a moment ago. */
  #busy = false;
  #again = false;

  /** @param tellOthers failures are of no account: a sign may be lost */
  constructor(tellOthers: () => Promise<void> = async () => undefined) {
    this.#tellOthers = tellOthers;
  }

  on(listener: () => void): () => void {
    // Of its own, so that one function given twice is called twice.
    const own = () => listener();
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  give(): void {
    for (const listener of this.#listeners) listener();
    if (this.#busy) this.#again = true;
    else void this.#tell();
  }

  async #tell(): Promise<void> {
    this.#busy = true;
    do {
      this.#again = false;
      await this.#tellOthers().catch(() => undefined);
      await new Promise<void>(resolve => setTimeout(resolve, EVERY_MS).unref());
    } while (this.#again);
    this.#busy = false;
  }
}
