import { backoffMs } from './core/backoff.ts';
import type { Clock } from './ports/clock.ts';
import type { Store } from './ports/store.ts';

/** How long to wait before the next probe of a store that is down. */
const PROBES = { minMs: 100, maxMs: 10_000 };

/**
 * One health state per store, shared by everything that uses it: a thousand messages that meet the same outage wait for
 * one probe.
 */
export class Health {
  readonly #store: Store;
  readonly #clock: Clock;
  #recovering: Promise<void> | undefined;
  #listeners = 0;
  #failedProbes = 0;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  get isDown(): boolean {
    return this.#recovering !== undefined;
  }

  /** Resolves when the store answers again, or when `signal` aborts. Never rejects. */
  async recovered(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    this.#listeners++;
    this.#recovering ??= this.#probe().finally(() => {
      this.#recovering = undefined;
    });
    const aborted = Promise.withResolvers<void>();
    const onAbort = () => aborted.resolve();
    signal.addEventListener('abort', onAbort, { once: true });
    await Promise.race([this.#recovering, aborted.promise]);
    signal.removeEventListener('abort', onAbort);
    this.#listeners--;
  }

  /** A batch went through: the next outage starts with short waits again. */
  healthy(): void {
    this.#failedProbes = 0;
  }

  async #probe(): Promise<void> {
    // A store that answers the probe and still fails the work (a disk that is full, a handler's downstream) must not be
    // tried hot, so the back-off only starts over once work has gone through.
    do {
      await this.#clock.sleep(backoffMs(++this.#failedProbes, PROBES, this.#clock.random()));
    } while (this.#listeners > 0 && !(await this.#answers()));
  }

  async #answers(): Promise<boolean> {
    try {
      await this.#store.ping();
      return true;
    } catch {
      return false;
    }
  }
}

// By the clock too: consumers in production share the system's, and a test's own must not pace those of the next test.
const healthOf = new WeakMap<Store, WeakMap<Clock, Health>>();

export function healthFor(store: Store, clock: Clock): Health {
  const ofStore = healthOf.get(store) ?? new WeakMap<Clock, Health>();
  healthOf.set(store, ofStore);
  const health = ofStore.get(clock) ?? new Health(store, clock);
  ofStore.set(clock, health);
  return health;
}
