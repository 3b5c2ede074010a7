import type { Delivery, Lane, Settlement, Source } from '../../src/index.ts';

/** What happened at a source that is watched. */
export interface Watched {
  readonly source: Source;
  /** Deliveries handed out and not yet settled, over all lanes, at most. */
  readonly mostUnsettled: number;
  /** Settlements that were tried on a lane which had been taken away. Must stay 0. */
  readonly settledAfterRevocation: number;
  /** Every settlement, in order. */
  readonly settlements: readonly Settlement[];
}

/** The same source, with an eye on the promises that a consumer owes it; `before` may hold up or refuse a settle. */
export function watched(
  source: Source,
  before: (settlements: readonly Settlement[]) => unknown = () => undefined,
): Watched {
  const unsettled = new Set<Delivery>();
  const settlements: Settlement[] = [];
  const seen = { mostUnsettled: 0, settledAfterRevocation: 0 };
  const watch = (lane: Lane): Lane => ({
    id: lane.id,
    revoked: lane.revoked,
    async receive(max, signal) {
      const deliveries = await lane.receive(max, signal);
      for (const delivery of deliveries) unsettled.add(delivery);
      seen.mostUnsettled = Math.max(seen.mostUnsettled, unsettled.size);
      return deliveries;
    },
    async settle(given) {
      if (lane.revoked.aborted) seen.settledAfterRevocation++;
      await before(given);
      settlements.push(...given);
      for (const { delivery } of given) unsettled.delete(delivery);
      await lane.settle(given);
    },
  });
  return {
    settlements,
    get mostUnsettled() {
      return seen.mostUnsettled;
    },
    get settledAfterRevocation() {
      return seen.settledAfterRevocation;
    },
    source: {
      name: source.name,
      capabilities: source.capabilities,
      receive: options => {
        const lanes = source.receive(options)[Symbol.asyncIterator]();
        return {
          [Symbol.asyncIterator]: () => ({
            async next() {
              const next = await lanes.next();
              return next.done === true ? next : { done: false, value: watch(next.value) };
            },
            return: async () => (await lanes.return?.()) ?? { done: true, value: undefined },
          }),
        };
      },
    },
  };
}
