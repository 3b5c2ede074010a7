import assert from 'node:assert/strict';
import type { Delivery } from '../../ports/delivery.ts';
import type { Lane, Source } from '../../ports/source.ts';
import type { Positions } from '../../ports/store.ts';

export interface Taken {
  readonly lane: Lane;
  readonly delivery: Delivery;
}

/** One run of a consumer over a source: takes every lane, and asks for deliveries only when the test does. */
export class Receiver {
  readonly lanes: Lane[] = [];
  readonly #boundMs: number;
  readonly #stop = new AbortController();
  readonly #lanes: AsyncIterator<Lane>;
  readonly #buffer: Taken[] = [];
  readonly #loops: Promise<void>[] = [];
  #wanted = 0;
  #max = 1;
  #running = 1;
  #error: unknown;
  #changed = Promise.withResolvers<void>();

  /** @param boundMs longest time to wait for anything that has to come */
  constructor(source: Source, consumer: string, positions: Positions, boundMs: number) {
    this.#boundMs = boundMs;
    this.#lanes = source.receive({ signal: this.#stop.signal, consumer, positions })[Symbol.asyncIterator]();
    this.#loops.push(this.#guard(this.#takeLanes()));
  }

  /** The next `n` deliveries over all lanes, asking each for at most `max` at once. */
  async take(n: number, max = n): Promise<readonly Taken[]> {
    this.#max = max;
    this.#wanted = n;
    this.#notify();
    await this.#until(() => this.#buffer.length >= n || this.#running === 0, `${n} deliveries`);
    this.#wanted = 0;
    assert.ok(this.#buffer.length >= n, `only ${this.#buffer.length} of ${n} deliveries came before the source ended`);
    return this.#buffer.splice(0, n);
  }

  /** Resolves when every lane and the source have ended by themselves. */
  async ended(): Promise<void> {
    this.#max = 100;
    this.#wanted = Number.POSITIVE_INFINITY;
    this.#notify();
    await this.#until(() => this.#running === 0, 'the end of the source');
  }

  /** Stops the way a consumer does: aborts, waits for the lanes, and only then calls `return`. */
  async stop(): Promise<void> {
    this.abort();
    await within(Promise.all(this.#loops), 'lanes to end after the signal', this.#boundMs);
    await within(Promise.resolve(this.#lanes.return?.()), 'the source to close', this.#boundMs);
    if (this.#error !== undefined) throw this.#error;
  }

  abort(): void {
    this.#stop.abort();
    this.#notify();
  }

  async #takeLanes(): Promise<void> {
    for (let next = await this.#lanes.next(); next.done !== true; next = await this.#lanes.next()) {
      this.lanes.push(next.value);
      this.#running++;
      this.#loops.push(this.#guard(this.#takeDeliveries(next.value)));
      this.#notify();
    }
  }

  async #takeDeliveries(lane: Lane): Promise<void> {
    while (true) {
      while (this.#wanted <= this.#buffer.length && !this.#stop.signal.aborted && !lane.revoked.aborted) {
        await Promise.race([this.#changed.promise, aborted(lane.revoked)]);
      }
      const max = this.#max;
      const deliveries = await lane.receive(max, this.#stop.signal);
      assert.ok(deliveries.length <= max, `receive(${max}) gave ${deliveries.length} deliveries`);
      if (deliveries.length === 0) return;
      this.#buffer.push(...deliveries.map(delivery => ({ lane, delivery })));
      this.#notify();
    }
  }

  /** Keeps the first error for `stop` and `take`, so that no promise is left to reject unheard. */
  async #guard(work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.#error ??= error;
    } finally {
      this.#running--;
      this.#notify();
    }
  }

  async #until(reached: () => boolean, what: string): Promise<void> {
    while (!reached() && this.#error === undefined) await within(this.#changed.promise, what, this.#boundMs);
    if (this.#error !== undefined) throw this.#error;
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

export function settleAll(taken: readonly Taken[]): Promise<unknown> {
  return Promise.all(taken.map(({ lane, delivery }) => lane.settle([{ delivery, settle: 'ack' }])));
}

/** Rejects when `promise` takes longer than any working source would. */
export async function within<T>(promise: Promise<T>, what: string, ms: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new assert.AssertionError({ message: `waited ${ms} ms for ${what}` })),
    ms,
  );
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
