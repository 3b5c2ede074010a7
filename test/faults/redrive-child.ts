import { appendFileSync } from 'node:fs';
import { Pool } from 'pg';
import { createConsumer, type Points, type Sql, type Store } from '../../src/index.ts';
import { localStore } from '../../src/stores/local/index.ts';
import { postgresStore } from '../../src/stores/postgres/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';

export type Kind = 'postgres' | 'sqlite' | 'local';

export function storeOf(kind: Kind, where: string): Store {
  if (kind === 'postgres') return postgresStore(new Pool({ connectionString: where }));
  return kind === 'sqlite' ? sqliteStore(where) : localStore(where);
}

/** Its effects are rows where the store has transactions, and lines of a file where it has none. */
export function consumerOf(kind: Kind, where: string, effects: string, failing: boolean) {
  return createConsumer({
    name: 'pay',
    store: storeOf(kind, where),
    retries: { attempts: 1 },
    leaseMs: 300,
    ...(kind === 'local'
      ? {}
      : { setup: async (sql: Sql) => void (await sql`CREATE TABLE IF NOT EXISTS effects (id text)`) }),
    handle: async (message: { id: string }, context: { sql: Sql }) => {
      if (failing) throw new Error('cannot');
      if (kind === 'local') appendFileSync(effects, `${message.id}\n`);
      else await context.sql`INSERT INTO effects (id) VALUES (${message.id})`;
    },
  } as never);
}

/** Ends like a process that loses its power, at one named point. */
if (process.argv[1] === import.meta.filename) {
  const [kind, where, effects, at] = process.argv.slice(2) as [Kind, string, string, string];
  const points: Points = {
    reach: ({ step, edge }) => void (`${step} ${edge}` === at && process.kill(process.pid, 'SIGKILL')),
  };
  await consumerOf(kind, where, effects, false).redrive({ points, by: 'the one that dies' });
  process.exit(0);
}
