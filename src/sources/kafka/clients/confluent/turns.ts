/**
 * A loop in whose pauses things can be done. What changes where a consumer reads (assign, unassign, seek) must not happen
 * while it is reading: what it read before would come after, and pass for what was read from the new place.
 */
export class Turns {
  #due: (() => Promise<void>)[] = [];
  #endIdle: (() => void) | undefined;
  #woken = false;
  #running = false;

  /** Resolves with what `act` gives, once it was its turn; at once when the loop is not running. */
  between<T>(act: () => T | Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const run = async () => act();
    this.#due.push(() => run().then(resolve, reject));
    this.wake();
    if (!this.#running) void this.#serve();
    return promise;
  }

  /** There is something: the next turn follows at once. */
  wake(): void {
    this.#woken = true;
    this.#endIdle?.();
  }

  /** Calls `turn` again and again until `ended`; after one that says it found nothing, it waits `idleMs`, or until woken. */
  async run(turn: () => Promise<boolean>, ended: () => boolean, idleMs: number): Promise<void> {
    this.#running = true;
    while (!ended()) {
      this.#woken = false;
      await this.#serve();
      const found = await turn();
      // A word that came during the turn may be of what it was too early for.
      if (!found && !this.#woken && !ended()) await this.#idle(idleMs);
    }
    this.#running = false;
    await this.#serve();
  }

  async #serve(): Promise<void> {
    for (let act = this.#due.shift(); act !== undefined; act = this.#due.shift()) await act();
  }

  #idle(ms: number): Promise<void> {
    return new Promise(resolve => {
      const end = () => {
        clearTimeout(timer);
        this.#endIdle = undefined;
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#endIdle = end;
    });
  }
}
