import type { Entry } from './entry.ts';
import { Unavailable } from './errors.ts';
import type { CircuitPolicy } from './options.ts';
import type { Summary } from './path.ts';
import type { Clock } from './ports/clock.ts';

/**
 * Tells a downstream that is down from messages that are bad, by how many of the last tries failed, where a handler cannot say it
 * itself by throwing `Unavailable`. While it is open no message runs out of tries: the consumer pauses instead.
 */
export class Circuit {
  readonly #policy: CircuitPolicy;
  readonly #counts: Readonly<Summary>;
  readonly #clock: Clock;
  /** Of the last tries, the newest last: whether each failed. */
  #failed: boolean[] = [];
  #processed: number;

  constructor(policy: CircuitPolicy, counts: Readonly<Summary>, clock: Clock) {
    this.#policy = policy;
    this.#counts = counts;
    this.#clock = clock;
    this.#processed = counts.processed;
  }

  /** Those that went well are counted already, so that they cost nothing here. */
  failed(): void {
    const well = Math.min(this.#counts.processed - this.#processed, this.#policy.of);
    this.#processed = this.#counts.processed;
    this.#failed = [...this.#failed, ...Array<boolean>(well).fill(false), true].slice(-this.#policy.of);
  }

  get #isOpen(): boolean {
    const { of, ratio } = this.#policy;
    return this.#failed.length === of && this.#failed.filter(Boolean).length >= ratio * of;
  }

  /**
   * What to throw instead of setting `entry` aside; undefined where it is to be decided. One that is held for too long is bad
   * itself, or a lane with nothing else to try would never find out.
   */
  holds(entry: Entry, cause: unknown): Unavailable | undefined {
    if (!this.#isOpen) return undefined;
    const now = this.#clock.monotonicMs();
    entry.heldSince ??= now;
    if (now - entry.heldSince >= this.#policy.holdMs) return undefined;
    return new Unavailable('what the handlers depend on', { cause });
  }
}
