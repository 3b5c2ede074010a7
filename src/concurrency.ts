import type { ResolvedPolicy } from './options.ts';
import type { Store } from './ports/store.ts';

const DEFAULT = 4;

/**
 * How many lanes are worked on at once. Each holds `perLane` connections of the store, one unless effects need a second, and a handler that wants a second one
 * from the same pool waits for ever once all are held that way, so one is left free by default.
 */
export function concurrencyFor(
  { policy }: { readonly policy: ResolvedPolicy },
  store: Store,
  warn: (code: string, text: string) => void,
  perLane = 1,
): number {
  const { connections } = store.capabilities;
  const { concurrency } = policy;
  if (connections === undefined) return concurrency ?? DEFAULT;
  if (concurrency === undefined) return Math.max(1, Math.min(DEFAULT, Math.floor((connections - 1) / perLane)));
  const needed = concurrency * perLane + 1;
  if (needed > connections) {
    warn(
      'NT_POOL_SIZE',
      `concurrency ${concurrency} leaves no spare connection in a pool of ${connections}: a handler that takes a second one can wait for ever; raise the pool's max to ${needed} or more`,
    );
  }
  return concurrency;
}
