// A consumer process on a lease store: `node child.ts '<Job as JSON>'`. Kills or stops itself where the job says, and ends
// by itself when its input is exhausted.
import { openSync, writeSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { DatabaseSync } from 'node:sqlite';
import { createConsumer, type LeaseContext, type Message, type Points } from '../../../src/index.ts';
import { jsonlSource } from '../../../src/sources/jsonl/index.ts';
import { openTarget } from '../../stores/lease-targets.ts';
import { CONSUMER, type Ending, type Job } from './job.ts';
import type { Place } from './places.ts';

const job = JSON.parse(process.argv[2]!) as Job;
let arrivals = 0;

function pass(place: Place, ids: readonly string[]): void {
  const { fault } = job;
  if (fault?.place !== place || ++arrivals !== fault.nth) return;
  // Synchronous, or it would die with us: the parent is told where, and with which messages in hand.
  writeSync(1, `${JSON.stringify({ place, ids })}\n`);
  process.kill(process.pid, fault.signal);
}

function sink(): (id: string, token: bigint) => void {
  if ('lines' in job.effects) {
    const file = openSync(job.effects.lines, 'a');
    return (id, token) => writeSync(file, `${id} ${token}\n`);
  }
  const database = new DatabaseSync(job.effects.fenced);
  database.exec(
    'CREATE TABLE IF NOT EXISTS effects (id TEXT PRIMARY KEY, token INTEGER, times INTEGER, refused INTEGER)',
  );
  const add = database.prepare(`INSERT INTO effects VALUES (?, ?, 1, 0) ON CONFLICT DO UPDATE SET
    times = times + (excluded.token > token), refused = refused + (excluded.token <= token), token = max(token, excluded.token)`);
  return (id, token) => add.run(id, token);
}

const effect = sink();
const points: Points = { reach: ({ step, edge, ids }) => pass(`${step} ${edge}` as Place, ids) };
const { store, close } = await openTarget(job.target);
// By itself Node writes the cache at the end, which few of these processes come to.
flushCompileCache();
const consumer = createConsumer({
  ...CONSUMER,
  store,
  source: jsonlSource(job.input),
  leaseMs: job.leaseMs,
  maxBatch: 4,
  // The kills are no message's fault, and may meet the same one again and again.
  quarantineAfter: 100,
  handle: async ({ id }: Message<unknown>, { token }: LeaseContext) => {
    pass('effect before', [id]);
    effect(id, token);
    pass('effect after', [id]);
  },
});
const { processed, duplicates, ...other } = await consumer.run({ points });
await close();
if (other.conflicts + other.failed + other.deadLetters > 0) throw new Error(JSON.stringify(other));
const ending: Ending = { processed, duplicates, stale: store.staleCalls };
writeSync(1, JSON.stringify(ending));
