import { type Backoff, backoffMs } from '../core/backoff.ts';
import type { Clock } from '../ports/clock.ts';

/** Keys, by their hash, that wait before their next try; all else goes on meanwhile. */
export class HeldKeys {
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  readonly #held = new Map<number, { readonly until: number; readonly failures: number }>();

  constructor(clock: Clock, backoff: Backoff) {
    this.#clock = clock;
    this.#backoff = backoff;
  }

  hold(hash: number): void {
    const failures = (this.#held.get(hash)?.failures ?? 0) + 1;
    const wait = backoffMs(failures, this.#backoff, this.#clock.random());
    this.#held.set(hash, { until: this.#clock.monotonicMs() + wait, failures });
  }

  /** It went through, or is parked: the next failure is the first again. */
  free(hash: number): void {
    if (this.#held.size > 0) this.#held.delete(hash);
  }

  /** Those that are to be left alone now. */
  now(): readonly number[] {
    if (this.#held.size === 0) return [];
    const now = this.#clock.monotonicMs();
    return [...this.#held].filter(([, { until }]) => until > now).map(([hash]) => hash);
  }

  /** How long until the next of them is due; Infinity for none. */
  dueInMs(): number {
    const now = this.#clock.monotonicMs();
    return Math.min(...[...this.#held.values()].map(({ until }) => until - now).filter(ms => ms > 0));
  }
}
