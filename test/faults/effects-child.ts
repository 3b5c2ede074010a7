// A consumer that charges a card, and dies at a point: `node effects-child.ts <url or file> <provider> <onUnknown> [step edge]`.
// Prints its summary when it comes to the end.
import { Pool } from 'pg';
import { createConsumer, type EffectOptions, type Points } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { chargeAt } from '../support/payments.ts';

const [target, provider, onUnknown, step, edge] = process.argv.slice(2) as [
  string,
  string,
  EffectOptions['onUnknown'],
  string?,
  string?,
];
const pool = target.startsWith('postgres') ? new Pool({ connectionString: target, pipeline: true, max: 3 }) : undefined;
const store = pool === undefined ? sqliteStore(target) : postgresStore(pool);
const ledger = pool === undefined ? sqliteStore(`${target}.effects`) : undefined;
const points: Points = {
  reach(at) {
    if (at.step === step && at.edge === edge) process.kill(process.pid, 'SIGKILL');
  },
};

const consumer = createConsumer<typeof store>({
  name: 'pay',
  store: store as never,
  effects: ledger ?? true,
  leaseMs: 300,
  retries: { minMs: 1, maxMs: 2 },
  async handle(message, { sql, effect }) {
    await sql`UPDATE wallet SET balance = balance + 500 WHERE account = 'alice'`;
    await effect('charge', ({ key, signal }) => chargeAt(provider, key, 'alice', 500, signal), {
      args: message.body,
      onUnknown: onUnknown!,
    });
  },
});
const summary = await consumer.run({ source: memorySource([{ id: 'm1', body: { amount: 500 } }]), points });
console.log(JSON.stringify(summary));
await pool?.end();
await store.close();
await ledger?.close();
