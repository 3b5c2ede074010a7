import { NevertwiceError } from './errors.ts';

/**
 * The time limit of handlers that share a transaction or a group of leases. When one overruns, or a stop reaches its
 * deadline, all of them are told and lose their handle, since what they share is gone. One controller, one listener and
 * one race serve the whole group: made per message they were a tenth of the time of overlapping handlers.
 */
export class Deadline<E> {
  readonly #timeoutMs: number;
  readonly #abort: AbortSignal;
  readonly #cutOff: (reason: unknown, item: E | undefined) => void;
  readonly #controller = new AbortController();
  readonly #clocks = new Set<NodeJS.Timeout>();
  readonly #over = Promise.withResolvers<never>();
  readonly #onAbort = () => this.#end(this.#abort.reason, undefined);

  constructor(timeoutMs: number, abort: AbortSignal, cutOff: (reason: unknown, item: E | undefined) => unknown) {
    this.#timeoutMs = timeoutMs;
    this.#abort = abort;
    this.#cutOff = (reason, item) => this.#over.reject(cutOff(reason, item));
    this.#over.promise.catch(() => undefined);
    if (abort.aborted) this.#onAbort();
    else abort.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * Starts the clock of one handler; the result stops it. Throws once the group was cut off: a handler that returned
   * late must not be followed by the next one, which somebody else may have started by now.
   */
  start(item: E | undefined): () => void {
    this.signal.throwIfAborted();
    const clock = setTimeout(() => this.#end(this.#overrun(), item), this.#timeoutMs);
    this.#clocks.add(clock);
    return () => {
      clearTimeout(clock);
      this.#clocks.delete(clock);
    };
  }

  /** The outcome of `work`, or a rejection with what `cutOff` returned, at once, even if `work` never settles. */
  async race<R>(work: () => Promise<R>): Promise<R> {
    try {
      return await Promise.race([this.#over.promise, work()]);
    } finally {
      this.#abort.removeEventListener('abort', this.#onAbort);
      // Of handlers that never end: a process that has stopped must not wait out their time.
      for (const clock of this.#clocks) clearTimeout(clock);
    }
  }

  #end(reason: unknown, item: E | undefined): void {
    this.#controller.abort(reason);
    this.#cutOff(reason, item);
  }

  #overrun(): NevertwiceError {
    return new NevertwiceError(
      'NT_HANDLER_TIMEOUT',
      `the handler ran longer than timeoutMs (${this.#timeoutMs} ms); its transaction was rolled back`,
    );
  }
}
