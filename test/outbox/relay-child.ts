// A relay process of the kill runs: `node relay-child.ts '<RelayJob as JSON>'`. It writes what it publishes to a file, and
// kills itself where the job says. SIGTERM ends it.
import { appendFileSync, writeSync } from 'node:fs';
import { createRelay, type RelayPoint, type TransactionalStore } from '../../src/index.ts';
import type { PLACES, RelayJob } from './relay-places.ts';

const job = JSON.parse(process.argv[2]!) as RelayJob;
let arrivals = 0;

function at(place: (typeof PLACES)[number]): boolean {
  return job.place === place && ++arrivals === job.nth;
}

function die(): void {
  process.kill(process.pid, job.freezes ? 'SIGSTOP' : 'SIGKILL');
}

async function open(): Promise<{ store: TransactionalStore<any>; close(): Promise<void> }> {
  if (job.kind === 'sqlite') {
    const { sqliteStore } = await import('../../src/stores/sqlite/index.ts');
    const store = sqliteStore(job.target);
    return { store, close: () => store.close() };
  }
  const { Pool } = await import('pg');
  const { postgresStore } = await import('../../src/stores/postgres/index.ts');
  const pool = new Pool({ connectionString: job.target, pipeline: true, max: 4 });
  return { store: postgresStore(pool), close: () => pool.end() };
}

const { store, close } = await open();
const relay = createRelay({
  store,
  leaseMs: job.leaseMs,
  pollMs: 20,
  maxBatch: 20,
  concurrency: 1,
  overlap: 2,
  destination: async ({ id, key }) => {
    if (job.slowMs !== undefined) await new Promise(resolve => setTimeout(resolve, job.slowMs));
    appendFileSync(job.sink, `${JSON.stringify({ id, key, by: process.pid })}\n`);
    if (at('publish during')) die();
  },
});
process.once('SIGTERM', () => void relay.stop());
writeSync(1, 'ready\n');
await relay.run({
  points: {
    reach({ step, edge, ids }: RelayPoint) {
      // Only where there is something to lose.
      if (ids.length === 0 && step !== 'read') return;
      if (at(`${step} ${edge}`)) die();
      if (step === 'delete' && edge === 'before' && at('delete during')) setImmediate(die);
    },
  },
});
await close();
