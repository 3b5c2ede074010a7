// One of several processes that handle messages from one SQLite file. It reads before it writes, which is what a
// deferred transaction cannot do beside another writer.
import { once } from 'node:events';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { budget, claimOf } from './sqlite-support.ts';

const [path, worker, messages, shared] = [process.argv[2]!, ...process.argv.slice(3).map(Number)] as [
  string,
  number,
  number,
  number,
];
console.log('ready');
process.stdin.resume();
await once(process.stdin, 'end');

const store = sqliteStore(path);
const inbox = await store.open({ name: 'ledger', signature: 's/1' });
await store.setup('ledger', async sql => {
  await sql`CREATE TABLE IF NOT EXISTS effects (id TEXT, worker INTEGER, amount INTEGER)`;
});
for (let i = 0; i < messages; i++) {
  // Shared ids are spread over the run, so that both processes meet at them.
  const common = i % Math.floor(messages / shared) === 0;
  const id = common ? `shared-${i}` : `worker-${worker}-${i}`;
  await inbox.transaction([claimOf(id)], budget, async ({ sql, fresh }) => {
    if (!fresh[0]) return;
    const [before] = await sql<{ n: number }>`SELECT count(*) AS n FROM effects WHERE id = ${id}`;
    await sql`INSERT INTO effects (id, worker, amount) VALUES (${id}, ${worker}, ${500 + before!.n})`;
  });
}
await store.close();
