import type { Delivery } from '../ports/delivery.ts';
import type { Lane, ReceiveOptions, Settlement, Source } from '../ports/source.ts';

/** A source that hands over exactly what a test gives it: every delivery on a lane of its own, so that copies overlap. */
export class TestSource implements Source {
  readonly name = 'test';
  readonly capabilities = { retryLater: false, finite: false, briefLanes: true };
  readonly #lanes: Lane[] = [];
  #wake = Promise.withResolvers<void>();

  /** Resolves with what became of the delivery, once the consumer settles it; `undefined` when it ends unsettled. */
  deliver(delivery: Delivery): Promise<string | undefined> {
    const settled = Promise.withResolvers<string | undefined>();
    this.#lanes.push(oneDelivery(delivery, settled.resolve));
    this.#wake.resolve();
    this.#wake = Promise.withResolvers<void>();
    return settled.promise;
  }

  async *receive({ signal }: ReceiveOptions): AsyncGenerator<Lane, void> {
    const stopped = new Promise<void>(resolve => signal.addEventListener('abort', () => resolve(), { once: true }));
    while (!signal.aborted) {
      const lane = this.#lanes.shift();
      if (lane === undefined) await Promise.race([this.#wake.promise, stopped]);
      else yield lane;
    }
  }
}

function oneDelivery(delivery: Delivery, settled: (verdict: string | undefined) => void): Lane {
  let left: readonly Delivery[] = [delivery];
  return {
    id: delivery.lane,
    revoked: new AbortController().signal,
    async receive() {
      const now = left;
      // Asked again, the consumer is done with what it had, whether or not it could settle it.
      if (now.length === 0) settled(undefined);
      left = [];
      return now;
    },
    async settle(settlements: readonly Settlement[]) {
      for (const settlement of settlements) settled(settlement.settle === 'ack' ? settlement.verdict : undefined);
    },
  };
}
