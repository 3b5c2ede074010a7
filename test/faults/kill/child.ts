// A consumer process of the kill runs: `node child.ts '<Job as JSON>'`, with an IPC channel to the broker. It kills
// itself where the job says, or ends by itself when it is told to stop.
import { writeSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { bridgedSource } from '../../../src/cli/demo/bridge/service-side.ts';
import {
  type BatchContext,
  createConsumer,
  type Message,
  type Points,
  Reject,
  type TransactionalStore,
  type TransactionContext,
  trusted,
} from '../../../src/index.ts';
import type { Job, Place } from './plan.ts';
import { type Credit, isRefused, ledgerAll, ledgerOne, setup, walletAll, walletOne } from './wallet-sql.ts';

const job = JSON.parse(process.argv[2]!) as Job;
let arrivals = 0;

function at(place: Place): boolean {
  return job.kill?.place === place && ++arrivals === job.kill.nth;
}

function die(ids: readonly string[]): void {
  // Synchronous, or it would die with us: the parent is told where, and with which messages in hand.
  writeSync(1, `${JSON.stringify({ ...job.kill, ids })}\n`);
  process.kill(process.pid, 'SIGKILL');
}

const points: Points = {
  reach({ step, edge, ids }) {
    if (at(`${step} ${edge}` as Place)) die(ids);
    // Our next turn of the event loop comes when the COMMIT has left for the server.
    if (step === 'record' && edge === 'before' && at('record during')) setImmediate(die, ids);
  },
};

// The kills are no message's fault, and may meet the same one again and again.
const common = {
  name: 'wallet',
  concurrency: 2,
  maxBatch: 8,
  quarantineAfter: 100,
  setup,
  body: trusted<Credit>(),
};
type Context = TransactionContext<unknown>;

async function handle(message: Message<Credit>, { sql }: Context): Promise<void> {
  await ledgerOne(sql, message.id, message.body);
  if (isRefused(message.body)) throw new Reject('a credit of nothing');
  if (at('handle during')) die([message.id]);
  await walletOne(sql, message.body);
}

async function handleBatch(messages: readonly Message<Credit>[], context: BatchContext<Context>): Promise<void> {
  const { sql } = context;
  const refused = messages.filter(message => isRefused(message.body));
  for (const message of refused) context.reject(message, 'a credit of nothing');
  const good = messages.filter(message => !isRefused(message.body));
  const credits = good.map(message => ({ id: message.id, ...message.body }));
  await ledgerAll(job.kind, sql, credits);
  if (at('handle during')) die(credits.map(credit => credit.id));
  await walletAll(job.kind, sql, credits);
}

/** Loads only what this kind of store needs: there are many of these processes, and they live for moments. */
async function open(): Promise<{ store: TransactionalStore<unknown>; close(): Promise<void> }> {
  if (job.kind === 'sqlite') {
    const { sqliteStore } = await import('../../../src/stores/sqlite/index.ts');
    const store = sqliteStore(job.target);
    return { store, close: () => store.close() };
  }
  const [{ Pool }, { postgresStore }] = await Promise.all([
    import('pg'),
    import('../../../src/stores/postgres/index.ts'),
  ]);
  const pool = new Pool({ connectionString: job.target, pipeline: true, max: 3 });
  return { store: postgresStore(pool, { lockTimeoutMs: 50 }), close: () => pool.end() };
}

async function main(): Promise<void> {
  const { store, close } = await open();
  // By itself Node writes the cache at the end, which few of these processes come to.
  flushCompileCache();
  const consumer =
    job.style === 'handleBatch'
      ? createConsumer({ ...common, store, handleBatch })
      : createConsumer({
          ...common,
          store,
          handle,
          ...(job.style === 'overlap' ? { overlap: 'by-key' as const } : {}),
        });
  const { source, stopped } = bridgedSource(async () => undefined);
  const summary = await consumer.run({ source, signal: stopped, points });
  await close();
  if (summary.conflicts + summary.failed > 0) throw new Error(`no handler fails here: ${JSON.stringify(summary)}`);
  process.disconnect();
}

await main();
