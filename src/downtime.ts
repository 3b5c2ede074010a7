import { backoffMs } from './core/backoff.ts';
import type { Clock } from './ports/clock.ts';

const PAUSES = { minMs: 100, maxMs: 30_000 };
/** A hint is believed up to an hour: what comes from a header somewhere may be anything. */
const LONGEST_HINT_MS = 3_600_000;

/**
 * The pauses of one consumer while something that its handlers depend on is down. All its lanes wait together, however many of
 * them have found out.
 */
export class Downtime {
  readonly #clock: Clock;
  #pause: Promise<void> | undefined;
  #pauses = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Begins a pause, or joins the one that is on. Resolves at its end, or when `signal` aborts. */
  pause(retryAfterMs: number | undefined, signal: AbortSignal): Promise<void> {
    const hinted = Math.min(LONGEST_HINT_MS, retryAfterMs ?? 0);
    this.#pause ??= this.#clock
      .sleep(Math.max(hinted, backoffMs(++this.#pauses, PAUSES, this.#clock.random())))
      .finally(() => {
        this.#pause = undefined;
      });
    return this.over(signal);
  }

  /** Resolves at once where there is no pause. */
  async over(signal: AbortSignal): Promise<void> {
    if (this.#pause === undefined || signal.aborted) return;
    const aborted = Promise.withResolvers<void>();
    const onAbort = () => aborted.resolve();
    signal.addEventListener('abort', onAbort, { once: true });
    await Promise.race([this.#pause, aborted.promise]);
    signal.removeEventListener('abort', onAbort);
  }

  /** Work has gone through: the next pause is short again. */
  healthy(): void {
    this.#pauses = 0;
  }
}
