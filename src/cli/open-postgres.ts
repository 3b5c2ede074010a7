import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type PgPool, postgresStore } from '../stores/postgres/index.ts';
import { CommandError } from './command-error.ts';
import type { OpenedStore } from './store-url.ts';

/**
 * Most connections, so that a consumer with up to 19 lanes at once has one to spare. A pool opens only what it needs; a
 * module that wants more brings its own.
 */
const CONNECTIONS = 20;

interface Pool extends PgPool {
  on(event: 'error', listener: () => void): unknown;
  end(): Promise<void>;
}

/** @throws CommandError without the package `pg`, and for a URL that cannot be read */
export async function openPostgres(url: string, near: string | undefined): Promise<OpenedStore> {
  if (!URL.canParse(url) || new URL(url).pathname.length < 2) {
    throw new CommandError(
      '--store is no URL of a database; give postgres://USER:PASSWORD@HOST:5432/DATABASE, with %-escapes for special characters',
    );
  }
  const { Pool } = await clientFrom([...(near === undefined ? [] : [near]), process.cwd(), import.meta.dirname]);
  const pool = new Pool({ connectionString: url, pipeline: true, max: CONNECTIONS, application_name: 'nevertwice' });
  // An idle connection that the server ends is replaced; without a listener it would end the process.
  pool.on('error', () => undefined);
  return { store: postgresStore(pool), close: () => pool.end() };
}

/** The user's own `pg`, from the first of these folders that has it. */
async function clientFrom(folders: readonly string[]): Promise<{ Pool: new (config: object) => Pool }> {
  for (const folder of folders) {
    const found = resolveFrom(folder);
    if (found === undefined) continue;
    const module = (await import(pathToFileURL(found).href)) as { default?: unknown };
    return (module.default ?? module) as { Pool: new (config: object) => Pool };
  }
  throw new CommandError('--store postgres://… needs the client pg, which is not installed here: npm install pg');
}

function resolveFrom(folder: string): string | undefined {
  try {
    return createRequire(join(folder, 'from-here.js')).resolve('pg');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}
