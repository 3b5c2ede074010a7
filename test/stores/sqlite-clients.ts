import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import BetterSqlite3 from 'better-sqlite3';
import Libsql from 'libsql';
import type { SqliteDatabase } from '../../src/stores/sqlite/index.ts';

/** A database object as a user has it: the store calls exec and prepare, the tests also close it. */
export type ClientDatabase = SqliteDatabase & { close(): unknown };

/** The clients that the store works with, by name. */
export const clients: Readonly<Record<string, (path: string) => ClientDatabase>> = {
  'node:sqlite': path => new DatabaseSync(path),
  'better-sqlite3': path => new BetterSqlite3(path) as unknown as ClientDatabase,
  libsql: path => new Libsql(path) as unknown as ClientDatabase,
};

/** A path for a database file in a folder of its own, and its removal. */
export function temporaryFile(): { readonly path: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'nevertwice-sqlite-'));
  return { path: join(folder, 'test.db'), remove: () => rmSync(folder, { recursive: true, force: true }) };
}
