import type { ResolvedPolicy } from './options.ts';
import type { Store } from './ports/store.ts';

const DEFAULT = 4;

/**
 * How many lanes are worked on at once. Each holds one connection of the store, and a handler that wants a second one
 * from the same pool waits for ever once all are held that way, so one is left free by default.
 */
export function concurrencyFor(
  { policy }: { readonly policy: ResolvedPolicy },
  store: Store,
  warn: (code: string, text: string) => void,
): number {
  const { connections } = store.capabilities;
  const { concurrency } = policy;
  if (connections === undefined) return concurrency ?? DEFAULT;
  if (concurrency === undefined) return Math.max(1, Math.min(DEFAULT, connections - 1));
  if (concurrency + 1 > connections) {
    warn(
      'NT_POOL_SIZE',
      `concurrency ${concurrency} leaves no spare connection in a pool of ${connections}: a handler that takes a second one can wait for ever; raise the pool's max to ${concurrency + 1} or more`,
    );
  }
  return concurrency;
}
