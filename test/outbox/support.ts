import type { Pool } from 'pg';
import type { Relay, RelayRunOptions, TransactionalStore } from '../../src/index.ts';
import { OUTBOX_PARTS, type WaitingRow } from '../../src/ports/outbox.ts';

export const ALL_PARTS: readonly number[] = Array.from({ length: OUTBOX_PARTS }, (_, part) => part);

/** What waits, oldest first. */
export function waiting(store: TransactionalStore<any>): Promise<readonly WaitingRow[]> {
  return store.outbox.read(ALL_PARTS, [], 10_000);
}

/** Payloads that were JSON, as values. */
export function values(rows: readonly Pick<WaitingRow, 'payload'>[]): readonly unknown[] {
  return rows.map(row => JSON.parse(Buffer.from(row.payload).toString()));
}

/** Runs a relay beside `work` and stops it afterwards. */
export async function whileRunning<R>(
  relays: Relay | readonly Relay[],
  work: () => Promise<R>,
  options: RelayRunOptions = {},
): Promise<R> {
  const all = Array.isArray(relays) ? (relays as readonly Relay[]) : [relays as Relay];
  const runs = all.map(relay => relay.run(options));
  const broken = Promise.race(runs).then(() => Promise.reject(new Error('a relay ended by itself')));
  broken.catch(() => undefined);
  try {
    return await Promise.race([work(), broken]);
  } finally {
    await Promise.all(all.map(relay => relay.stop()));
    await Promise.allSettled(runs);
  }
}

/** Everything that was published has been deleted. */
export async function isEmpty(store: TransactionalStore<any>): Promise<boolean> {
  return (await store.outbox.backlog()).waiting === 0;
}

/** The first publication of each id, in order. */
export function firsts<T extends { readonly id: string }>(published: readonly T[]): readonly T[] {
  const seen = new Set<string>();
  return published.filter(({ id }) => !seen.has(id) && seen.add(id));
}

/** Held or waited for in this database alone: other test files use the same server. */
export async function advisoryLocks(pool: Pool): Promise<readonly { readonly granted: boolean }[]> {
  const { rows } = await pool.query<{ granted: boolean }>(
    `SELECT granted FROM pg_locks WHERE locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
  );
  return rows;
}
