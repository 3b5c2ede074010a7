import type { Store } from '../ports/store.ts';
import { CommandError } from './command-error.ts';

/** A store that knows its own migrations: every SQL store does. */
export interface Migrations {
  migrate(): Promise<readonly number[]>;
  pendingMigrations(): Promise<readonly number[]>;
  migrationSql(): string;
}

export interface OpenedStore {
  readonly store: Store & Partial<Migrations>;
  /** Closes it and what was opened for it. */
  close(): Promise<void>;
}

export const STORE_FORMS = 'sqlite:FILE, postgres://USER@HOST/DATABASE or memory:';

/**
 * Opens the store that a URL names; connects at the first use. Nothing of the URL is repeated in an error, since it may
 * hold a password.
 *
 * @param near where the module lies, whose own `pg` is to be used
 * @throws CommandError for a URL that names no store
 */
export async function openStore(url: string, near?: string): Promise<OpenedStore> {
  const [, scheme = '', rest = ''] = /^([A-Za-z]+):(.*)$/s.exec(url) ?? [];
  switch (scheme.toLowerCase()) {
    case 'sqlite':
      return openSqlite(rest);
    case 'postgres':
    case 'postgresql': {
      const { openPostgres } = await import('./open-postgres.ts');
      return openPostgres(url, near);
    }
    case 'memory': {
      const { memoryStore } = await import('../stores/memory/index.ts');
      const store = memoryStore();
      return { store, close: () => store.close() };
    }
    default:
      throw new CommandError(`--store names no store that there is; give ${STORE_FORMS}`);
  }
}

async function openSqlite(rest: string): Promise<OpenedStore> {
  // `sqlite:///var/wallet.db`, as other tools write it, is the same as `sqlite:/var/wallet.db`.
  const path = rest.startsWith('//') ? rest.slice(2) : rest;
  if (path === '') throw new CommandError('--store sqlite: names no file; give sqlite:FILE, or sqlite::memory:');
  const { sqliteStore } = await import('../stores/sqlite/index.ts');
  const store = sqliteStore(path);
  return { store, close: () => store.close() };
}
