import { NevertwiceError } from '../../errors.ts';
import { checkTables } from './check.ts';
import { NOW } from './claims.ts';
import type { Connection } from './connection.ts';
import { own } from './errors.ts';
import { type Names, type SqliteOptions, tableNames } from './options.ts';
import type { TransactionRunner } from './runner.ts';
import { historyTable, LATEST, MIGRATIONS, type Migration } from './schema.ts';

/**
 * Brings the tables to this version and returns the versions applied. Any number of processes may do it at once: the
 * history is read again under the write lock.
 * @throws NT_SCHEMA when tables of these names are there and do not fit.
 */
export async function migrate(
  store: string,
  connection: Connection,
  runner: TransactionRunner,
  names: Names,
): Promise<readonly number[]> {
  if ((await pending(connection, runner, names)).length === 0) return [];
  return runner.run(connection, { overlap: false }, async () => own(store, () => apply(connection, names)));
}

/** Versions that `migrate` would apply. */
export async function pending(
  connection: Connection,
  runner: TransactionRunner,
  names: Names,
): Promise<readonly number[]> {
  return (await runner.read(connection, () => missingSteps(connection, names))).map(step => step.version);
}

/**
 * Checks that the tables are there and fit. Versions of the library that are next to each other work side by side,
 * since each step of the history says which oldest version still works with its tables.
 * @throws NT_SCHEMA naming what does not fit.
 */
export async function check(
  store: string,
  connection: Connection,
  runner: TransactionRunner,
  names: Names,
): Promise<void> {
  const missing = await pending(connection, runner, names);
  if (missing.length > 0) {
    throw new NevertwiceError(
      'NT_SCHEMA',
      `${store} lacks schema version ${missing.join(', ')}; run the statements of migrationSql(), or use migrate: 'auto'`,
    );
  }
  await runner.read(connection, () => {
    refuseNewer(store, connection, names);
    checkTables(connection, names);
  });
}

function missingSteps(connection: Connection, names: Names): readonly Migration[] {
  const known = connection.all<{ name: string }>(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND lower(name) = lower(?)",
    names.plain.migrations,
  );
  if (known.length === 0) return MIGRATIONS;
  const applied = new Set(
    connection
      .all<{ version: number }>(`SELECT version FROM ${names.quoted.migrations}`)
      .map(row => Number(row.version)),
  );
  return MIGRATIONS.filter(step => !applied.has(step.version));
}

function apply(connection: Connection, names: Names): readonly number[] {
  connection.exec(historyTable(names));
  const steps = missingSteps(connection, names);
  for (const step of steps) for (const statement of stepSql(step, names)) connection.exec(statement);
  // Before the commit, so that tables of somebody else's making are left alone.
  checkTables(connection, names);
  return steps.map(step => step.version);
}

function refuseNewer(store: string, connection: Connection, names: Names): void {
  const [row] = connection.all<{ version: number; needs: number }>(
    `SELECT version, needs FROM ${names.quoted.migrations} WHERE needs > ? ORDER BY version DESC LIMIT 1`,
    BigInt(LATEST),
  );
  if (row === undefined) return;
  throw new NevertwiceError(
    'NT_SCHEMA',
    `${store} has schema version ${row.version}, which needs a library with version ${row.needs} or later, and this one has ${LATEST}; upgrade nevertwice here`,
  );
}

function stepSql(step: Migration, names: Names): readonly string[] {
  const record = `INSERT INTO ${names.quoted.migrations} (version, needs, applied_at) VALUES (${step.version}, ${step.needs}, ${NOW})`;
  return [...step.statements(names), record];
}

/** All statements that `migrate: 'auto'` would run on an empty database, to review or to run by hand. */
export function migrationSql(options: Pick<SqliteOptions, 'tablePrefix' | 'tables'> = {}): string {
  const names = tableNames(options);
  const statements = [historyTable(names), ...MIGRATIONS.flatMap(step => stepSql(step, names))];
  return ['BEGIN IMMEDIATE', ...statements, 'COMMIT'].map(statement => `${statement};\n`).join('');
}
