import { NevertwiceError } from './errors.ts';
import type { BoundStore } from './path.ts';
import type { ConsumerRegistration, Store, TransactionalStore } from './ports/store.ts';

/** Opens a store for one consumer. The one place that asks which of the two promises it makes. */
export async function bindStore(store: Store, consumer: ConsumerRegistration): Promise<BoundStore> {
  if (store.promise === 'exactly-once')
    return { promise: 'exactly-once', inbox: await store.open(consumer), lanes: store.lanes };
  return { promise: 'at-least-once', inbox: await store.open(consumer) };
}

/** The store, when it runs transactions; otherwise an error that says which option needs one. */
export function transactional(store: Store, option: string): TransactionalStore<any> {
  if (store.promise === 'exactly-once') return store;
  throw new NevertwiceError(
    'NT_CONFIG',
    `${option} needs a transactional store (PostgreSQL, SQLite), and ${store.name} is a lease store`,
  );
}

// Two consumers of one name on one store would drop each other's messages as duplicates.
const names = new WeakMap<Store, Set<string>>();

/** Takes a consumer name on a store for this process; the result gives it back. */
export function takeName(store: Store, name: string): () => void {
  const taken = names.get(store) ?? new Set();
  names.set(store, taken);
  if (taken.has(name)) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `a consumer named ${JSON.stringify(name)} already runs on this store; each needs its own name, or they drop each other's messages`,
    );
  }
  taken.add(name);
  return () => taken.delete(name);
}
