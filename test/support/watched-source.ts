import type { Delivery, Lane, Settlement, Source } from '../../src/index.ts';

/** What a consumer did with its source. */
export interface Watched {
  readonly source: Source;
  /** Calls of `receive` on all lanes. */
  readonly receives: number;
  /** Lanes that were taken away. */
  readonly revoked: number;
  /** Everything handed over, in order. */
  readonly received: readonly Delivery[];
  readonly settlements: readonly Settlement[];
}

/** A source that passes everything through and remembers it. */
export function watched(source: Source): Watched {
  const seen = { receives: 0, revoked: 0, received: [] as Delivery[], settlements: [] as Settlement[] };

  const watchedLane = (lane: Lane): Lane => {
    lane.revoked.addEventListener('abort', () => seen.revoked++, { once: true });
    return {
      id: lane.id,
      revoked: lane.revoked,
      async receive(max, signal) {
        seen.receives++;
        const deliveries = await lane.receive(max, signal);
        seen.received.push(...deliveries);
        return deliveries;
      },
      settle(settlements) {
        seen.settlements.push(...settlements);
        return lane.settle(settlements);
      },
    };
  };

  return Object.assign(seen, {
    source: {
      name: source.name,
      capabilities: source.capabilities,
      receive(options: Parameters<Source['receive']>[0]) {
        const lanes = source.receive(options)[Symbol.asyncIterator]();
        const iterator: AsyncIterator<Lane> = {
          async next() {
            const next = await lanes.next();
            return next.done === true ? next : { done: false, value: watchedLane(next.value) };
          },
          async return() {
            await lanes.return?.();
            return { done: true, value: undefined };
          },
        };
        return { [Symbol.asyncIterator]: () => iterator };
      },
    },
  });
}
