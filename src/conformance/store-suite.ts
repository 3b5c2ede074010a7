import type { LeaseStore, TransactionalStore } from '../ports/store.ts';
import { claimTests } from './store/claim.ts';
import { concurrencyTests } from './store/concurrency.ts';
import { consumerTests } from './store/consumer.ts';
import { handleTests } from './store/handle.ts';
import { laneTests } from './store/lanes.ts';
import { leaseTests } from './store/lease.ts';
import { recordTests } from './store/record.ts';
import { savepointTests } from './store/savepoint.ts';
import { wholeStoreTests } from './store/stores.ts';
import { registerWith, type StoreHarness } from './store/support.ts';
import { withinTests } from './store/within.ts';
import type { TestFunction } from './test-function.ts';

export type { StoreHarness } from './store/support.ts';

export interface StoreSuiteOptions<S extends TransactionalStore<any> | LeaseStore> {
  /** The runner's `test`. */
  readonly test: TestFunction;
  /** Starts each title. */
  readonly name: string;
  /**
   * A store that is ready to be opened, for one test. Tests use consumers and ids of their own, so it may be on a
   * database that other tests have used, and leaves tables named `suite_…` there.
   */
  readonly create: () => Promise<StoreHarness<S>>;
}

/**
 * Registers what every store with a transaction must do: claims that wait and tell the truth, effects that commit with
 * their claim or not at all, and handles that die with it. What a store's capabilities exclude is skipped by name.
 *
 *     storeSuite({ test, name: 'postgres', create: async () => ({ store: postgresStore(pool), close: async () => {} }) });
 */
export function storeSuite<Tx>({ test, name, create }: StoreSuiteOptions<TransactionalStore<Tx>>): void {
  const register = registerWith<TransactionalStore<any>>(
    test,
    name,
    create as () => Promise<StoreHarness<TransactionalStore<any>>>,
  );
  claimTests(register);
  concurrencyTests(register);
  handleTests(register);
  savepointTests(register);
  recordTests(register);
  withinTests(register);
  laneTests(register);
  consumerTests(register as never);
  wholeStoreTests(register);
}

/** Registers what every lease store must do: one owner at a time, a rising token, and stale owners refused. */
export function leaseStoreSuite({ test, name, create }: StoreSuiteOptions<LeaseStore>): void {
  const register = registerWith(test, name, create);
  leaseTests(register);
  consumerTests(register as never);
}
