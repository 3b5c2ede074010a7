import { NevertwiceError } from '../../errors.ts';
import type { Connection } from '../sqlite/connection.ts';
import type { Names } from '../sqlite/options.ts';
import { attemptTables, consumersTable, deadLetterTables, positionsTable, redriveColumns } from '../sqlite/schema.ts';
import { refused } from './errors.ts';

/** "ntLS" in the header of every file of this store: another application's database is told by the lack of it. */
const APPLICATION_ID = 0x6e744c53;
const VERSION = 1;

/** True for a file in which there is nothing yet. Only reads, since the file may be somebody else's. */
export function isEmpty(store: string, connection: Connection): boolean {
  const pragma = (name: string) =>
    Number(Object.values(connection.all<Record<string, number>>(`PRAGMA ${name}`)[0]!)[0]);
  const application = pragma('application_id');
  const [row] = connection.all<{ n: number }>('SELECT count(*) AS n FROM sqlite_schema');
  if (application === 0 && row?.n === 0) return true;
  if (application !== APPLICATION_ID) throw refused(store, 'is the database of another application');
  const version = pragma('user_version');
  if (version <= VERSION) return false;
  throw new NevertwiceError(
    'NT_SCHEMA',
    `${store} was written by a later version of nevertwice (format ${version}, this one knows ${VERSION}); upgrade nevertwice here`,
  );
}

/** Released, claimed, done: what `state` holds. */
export const RELEASED = 0;
export const CLAIMED = 1;
export const DONE = 2;

/**
 * `at` is the end of a lease, or when it was given up, or when the work was completed: from there on retention counts, so
 * that one index finds all that has expired. New ends lie at its end, where the page is at hand.
 */
export function tables(names: Names): readonly string[] {
  return [
    consumersTable(names.quoted),
    ...deadLetterTables(names),
    ...redriveColumns(names.quoted),
    ...attemptTables(names.quoted),
    positionsTable(names.quoted),
    `CREATE TABLE ids (
  consumer INTEGER NOT NULL,
  key BLOB NOT NULL,
  state INTEGER NOT NULL,
  nonce TEXT,
  token INTEGER NOT NULL,
  at INTEGER NOT NULL,
  fp BLOB,
  result TEXT,
  PRIMARY KEY (consumer, key)
) STRICT, WITHOUT ROWID`,
    'CREATE INDEX ids_at ON ids (at)',
    'CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), now INTEGER NOT NULL) STRICT',
    'INSERT INTO clock (id, now) VALUES (1, 0)',
    `PRAGMA user_version = ${VERSION}`,
    `PRAGMA application_id = ${APPLICATION_ID}`,
  ];
}

/** What a file of an earlier release lacks. Only adds, so that the format stays the same and that release can go on with it. */
export function missingTables(connection: Connection, names: Names): readonly string[] {
  const read = "SELECT 1 FROM pragma_table_info(?) WHERE name = 'outcome'";
  if (connection.all(read, names.plain.deadLetters).length > 0) return [];
  return [...redriveColumns(names.quoted), ...attemptTables(names.quoted)];
}
