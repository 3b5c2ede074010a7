// A service that stops at SIGTERM: `node stop-child.ts <url> none|short|endless`. Nothing here ends the process; it ends
// once nothing is open any more.
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { createConsumer } from '../../src/index.ts';
import { memoryBroker } from '../../src/memory.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';

const [url, message] = process.argv.slice(2) as [string, 'none' | 'short' | 'endless'];
const pool = new Pool({ connectionString: url, pipeline: true });
const broker = memoryBroker({ partitions: 2 });
if (message !== 'none') broker.send({ id: 'm1', body: {} });

const consumer = createConsumer({
  name: 'pay',
  store: postgresStore(pool),
  source: broker.source(),
  async handle({ id }, { sql }) {
    await sql`INSERT INTO ledger VALUES (${id})`;
    console.log('at work');
    await (message === 'short' ? sleep(100) : new Promise(() => undefined));
  },
});

process.once('SIGTERM', () => {
  void consumer.stop({ withinMs: message === 'short' ? 10_000 : 300 }).then(({ abandoned }) => {
    console.log(`abandoned ${abandoned.join(', ') || 'nothing'}`);
  });
});
if (message === 'none') setImmediate(console.log, 'at work');
await consumer.run();
await pool.end();
