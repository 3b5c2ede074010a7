/** Everybody who waits for a change. `wakeAll` lets each of them look again; whether it is enough they decide. */
export class WaitList {
  readonly #waiting = new Set<() => void>();

  wakeAll(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Resolves at the next `wakeAll`, or when `signal` aborts; never rejects. */
  wait(signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise(resolve => {
      const wake = () => {
        this.#waiting.delete(wake);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal?.addEventListener('abort', wake, { once: true });
    });
  }
}
