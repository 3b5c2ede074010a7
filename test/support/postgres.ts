import { randomBytes } from 'node:crypto';
import { Client, Pool, type PoolConfig } from 'pg';
import { inject } from 'vitest';

export { type PostgresServer, startPostgres } from '../../src/verify/servers/postgres-server.ts';

/** A database of its own on the run's shared server. */
export interface FreshDatabase {
  readonly url: string;
  /** A pool on it, `pipeline: true` unless told otherwise. `drop` ends it. */
  pool(options?: PoolConfig): Pool;
  /** Ends its pools and deletes the database, with whatever session is still open on it. */
  drop(): Promise<void>;
}

/** Creates an empty database, so that test files that run side by side do not meet. Needs about 50 ms. */
export async function freshDatabase(): Promise<FreshDatabase> {
  const server = inject('services').NEVERTWICE_TEST_POSTGRES;
  if (server === undefined) throw new Error('no PostgreSQL: run this file through vitest with its config');
  const name = `nevertwice_${randomBytes(6).toString('hex')}`;
  await administer(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const pools: Pool[] = [];
  return {
    url: url.href,
    pool(options = {}) {
      const pool = new Pool({ connectionString: url.href, pipeline: true, ...options });
      // An idle connection that a test cuts on purpose must not end the test process.
      pool.on('error', () => undefined);
      pools.push(pool);
      return pool;
    },
    async drop() {
      // A client that was never released keeps its pool from ending; cutting its session first tells which test leaks.
      const leaked = pools.filter(pool => !pool.ended && pool.totalCount > pool.idleCount);
      await Promise.all(pools.filter(pool => !pool.ended && !leaked.includes(pool)).map(pool => pool.end()));
      await administer(server, `drop database ${name} with (force)`);
      if (leaked.length > 0) throw new Error('a test kept a connection of its pool: release it before `drop`');
    },
  };
}

async function administer(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
