import { onAbort } from './core/on-abort.ts';
import { NevertwiceError } from './errors.ts';

/** One running handler: hand it back to `end`. */
export interface Started<E> {
  readonly item: E | undefined;
  readonly sinceMs: number;
}

/**
 * The time limit of handlers that share a transaction or a group of leases. When one overruns, or a stop reaches its
 * deadline, all of them are told and lose their handle, since what they share is gone. One timer, one controller, one
 * listener and one race serve the whole group: made per message they were a tenth of the time of overlapping handlers.
 */
export class Deadline<E> {
  readonly #timeoutMs: number;
  readonly #unheard: () => void;
  // As it was given: wrapped in a closure of the constructor's, scavenges kept what it reaches, which is the whole batch, until
  // the next full collection (Node.js 24; half of all the time a message took).
  readonly #cutOff: (reason: unknown, item: E | undefined) => unknown;
  readonly #controller = new AbortController();
  /** The longest running first. */
  readonly #running = new Set<Started<E>>();
  #timer: NodeJS.Timeout | undefined;
  readonly #over = Promise.withResolvers<never>();

  constructor(timeoutMs: number, abort: AbortSignal, cutOff: (reason: unknown, item: E | undefined) => unknown) {
    this.#timeoutMs = timeoutMs;
    this.#cutOff = cutOff;
    this.#over.promise.catch(() => undefined);
    this.#unheard = onAbort(abort, () => this.#end(abort.reason, undefined));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * Starts the clock of one handler. Throws once the group was cut off: a handler that returned late must not be
   * followed by the next one, which somebody else may have started by now.
   */
  start(item: E | undefined): Started<E> {
    this.signal.throwIfAborted();
    const started = { item, sinceMs: performance.now() };
    this.#running.add(started);
    // It stays set when a handler ends: setting it anew for each would cost more than looking again when it fires.
    this.#timer ??= setTimeout(this.#look, this.#timeoutMs);
    return started;
  }

  /** Cuts off who works on one of `items`, for a reason that comes from outside; a set works on all of its items. */
  cutOff(reason: unknown, items: ReadonlySet<E>): void {
    const [running] = this.#running;
    if (running === undefined || (running.item !== undefined && !items.has(running.item))) return;
    this.#end(reason, running.item);
  }

  end(started: Started<E>): void {
    this.#running.delete(started);
  }

  /** The outcome of `work`, or a rejection with what `cutOff` returned, at once, even if `work` never settles. */
  async race<R>(work: () => Promise<R>): Promise<R> {
    try {
      return await Promise.race([this.#over.promise, work()]);
    } finally {
      this.#unheard();
      // Of handlers that never end: a process that has stopped must not wait out their time.
      clearTimeout(this.#timer);
    }
  }

  readonly #look = (): void => {
    this.#timer = undefined;
    const [longest] = this.#running;
    if (longest === undefined) return;
    const leftMs = longest.sinceMs + this.#timeoutMs - performance.now();
    // Timers have whole milliseconds and may be one early.
    if (leftMs < 1) this.#end(this.#overrun(), longest.item);
    else this.#timer = setTimeout(this.#look, leftMs);
  };

  #end(reason: unknown, item: E | undefined): void {
    this.#controller.abort(reason);
    this.#over.reject(this.#cutOff(reason, item));
  }

  #overrun(): NevertwiceError {
    return new NevertwiceError(
      'NT_HANDLER_TIMEOUT',
      `the handler ran longer than timeoutMs (${this.#timeoutMs} ms); its transaction was rolled back`,
    );
  }
}
