import type { Clock } from '../ports/clock.ts';
import type { OutboxStore } from '../ports/outbox.ts';

/**
 * A relay's place among the others, which says what parts of the outbox are its own. It spares them the same work and no
 * more: order and completeness hold with two relays on one part.
 */
export class Membership {
  readonly #store: Pick<OutboxStore<unknown>, 'join' | 'leave'>;
  readonly #relay: string;
  readonly #leaseMs: number;
  readonly #clock: Clock;
  #parts: readonly number[] = [];
  #until = Number.NEGATIVE_INFINITY;
  #joining: Promise<void> | undefined;

  constructor(store: Pick<OutboxStore<unknown>, 'join' | 'leave'>, relay: string, leaseMs: number, clock: Clock) {
    this.#store = store;
    this.#relay = relay;
    this.#leaseMs = leaseMs;
    this.#clock = clock;
  }

  get parts(): readonly number[] {
    return this.#parts;
  }

  /** Whoever was asleep for longer has to ask what is his before he begins anything. */
  get holds(): boolean {
    return this.#clock.monotonicMs() < this.#until;
  }

  /** After an outage: a database that only answers is not yet one that can be written to. */
  drop(): void {
    this.#until = Number.NEGATIVE_INFINITY;
  }

  /** Makes sure of the lease; one call for all who ask at once. Rejects when the store is down. */
  async ensure(): Promise<void> {
    if (this.holds) return;
    await this.renew();
  }

  renew(): Promise<void> {
    this.#joining ??= this.#join().finally(() => {
      this.#joining = undefined;
    });
    return this.#joining;
  }

  async #join(): Promise<void> {
    // From before the call: the store counts from when it has got it.
    const from = this.#clock.monotonicMs();
    this.#parts = await this.#store.join(this.#relay, this.#leaseMs);
    this.#until = from + this.#leaseMs;
  }

  async leave(): Promise<void> {
    this.drop();
    await this.#joining?.catch(() => undefined);
    await this.#store.leave(this.#relay);
  }
}
