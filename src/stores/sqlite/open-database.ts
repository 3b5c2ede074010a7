import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { NevertwiceError } from '../../errors.ts';
import { TRANSACTION_OPEN, whenFree } from './busy.ts';
import { Connection } from './connection.ts';
import type { SqliteDatabase } from './database.ts';
import { primaryCode, SQLITE_CANTOPEN, storeError } from './errors.ts';
import { exclusively } from './exclusive.ts';
import type { Settings } from './options.ts';
import { queueKey } from './runner.ts';

const EXTRA = 3;

/** Opens a file with node:sqlite, loaded only here: it prints a warning on Node 22, which users of other clients need not see. */
export function openFile(store: string, path: string): DatabaseSync {
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  try {
    return new DatabaseSync(path);
  } catch (error) {
    if (primaryCode(error) === SQLITE_CANTOPEN && !existsSync(dirname(path))) {
      throw new NevertwiceError('NT_CONFIG', `${store}: the directory of the file does not exist; create it first`, {
        cause: error,
      });
    }
    throw storeError(store, error);
  }
}

/**
 * Sets up a connection: never block the event loop over a lock, never lose an acked message at a power failure.
 *
 * WAL mode with the synchronous setting NORMAL, which some clients have as their default, does not wait for the disk at
 * COMMIT: the last transactions can be gone after a power failure although their messages were acked. So it is FULL here,
 * and set also where it reads FULL already: better-sqlite3 says so until its first transaction and then lowers what was
 * never set by name.
 */
export async function connect(
  store: string,
  database: SqliteDatabase,
  settings: Settings,
  options: { wal: boolean },
): Promise<Connection> {
  const connection = new Connection(database);
  const setUp = () => {
    if (connection.inTransaction) return TRANSACTION_OPEN;
    if (options.wal) connection.exec('PRAGMA journal_mode = WAL');
    const [row] = connection.all<{ synchronous: number }>('PRAGMA synchronous');
    if (Number(row?.synchronous) !== EXTRA) connection.exec('PRAGMA synchronous = FULL');
    return undefined;
  };
  try {
    connection.exec('PRAGMA busy_timeout = 0');
    await exclusively(queueKey(connection), () => whenFree(store, settings, setUp));
    return connection;
  } catch (error) {
    throw storeError(store, error);
  }
}
