// A consumer with a message that ends its process: `node poison-child.ts <postgres|sqlite|local> <where> <effects>`.
import { appendFileSync } from 'node:fs';
import { createConsumer, type Sql } from '../../src/index.ts';
import { memorySource } from '../../src/memory.ts';
import { type Kind, storeOf } from './redrive-child.ts';

const [kind, where, effects] = process.argv.slice(2) as [Kind, string, string];
const store = storeOf(kind, where);
const consumer = createConsumer({
  name: 'pay',
  store,
  leaseMs: 200,
  quarantineAfter: 2,
  ...(kind === 'local'
    ? {}
    : { setup: async (sql: Sql) => void (await sql`CREATE TABLE IF NOT EXISTS effects (id text)`) }),
  handle: async (message: { id: string }, context: { sql: Sql }) => {
    if (kind === 'local') appendFileSync(effects, `${message.id}\n`);
    else await context.sql`INSERT INTO effects (id) VALUES (${message.id})`;
    if (message.id === 'm4') process.kill(process.pid, 'SIGKILL');
  },
} as never);
const source = memorySource(Array.from({ length: 10 }, (_, i) => ({ id: `m${i + 1}` })));
console.log(JSON.stringify(await consumer.run({ source })));
process.exit(0);
