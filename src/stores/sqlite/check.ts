import { NevertwiceError } from '../../errors.ts';
import type { Connection } from './connection.ts';
import type { Names, TableRole } from './options.ts';
import { type Column, SHAPES, type TableShape } from './schema.ts';

interface FoundColumn {
  readonly name: string;
  readonly type: string;
  readonly notnull: number;
  readonly dflt_value: unknown;
  readonly pk: number;
}

/**
 * Compares the tables that are there with what the store's statements rely on. A column of another type changes ids
 * without an error: in one declared STRING "007" becomes 7 and "1e3" becomes 1000.
 * @throws NT_SCHEMA naming table, column, found and wanted.
 */
export function checkTables(connection: Connection, names: Names): void {
  for (const role of Object.keys(SHAPES) as TableRole[]) checkTable(connection, names.plain[role], SHAPES[role]);
}

function checkTable(connection: Connection, table: string, shape: TableShape): void {
  const found = connection.all<FoundColumn>(
    'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)',
    table,
  );
  if (found.length === 0) throw unfit(table, '', 'no table', 'the table of this version');
  for (const [name, wanted] of Object.entries(shape.columns)) {
    checkColumn(
      table,
      name,
      found.find(column => column.name.toLowerCase() === name),
      wanted,
    );
  }
  for (const column of found) {
    // SQLite fills neither an unknown column nor one without a default.
    const filled = column.name.toLowerCase() in shape.columns || column.dflt_value !== null || !column.notnull;
    if (!filled)
      throw unfit(table, column.name, 'an unknown column NOT NULL without a default', 'a default, or no column');
  }
  const unique = uniqueKeys(connection, table, found);
  for (const { columns, partial } of shape.unique) {
    if (!unique.has(keyName(columns, partial))) {
      throw unfit(table, columns.join(', '), 'no unique key', partial ? 'UNIQUE WHERE closed_at IS NULL' : 'UNIQUE');
    }
  }
}

function checkColumn(table: string, name: string, found: FoundColumn | undefined, wanted: Column): void {
  const want = wanted.nullable ? wanted.type : `${wanted.type} NOT NULL`;
  if (found === undefined) throw unfit(table, name, 'no such column', want);
  const declared = found.type === '' ? 'no type' : found.type;
  if (affinity(found.type) !== wanted.type) throw unfit(table, name, declared, want);
  // A key of several columns that is not the row's number may hold NULL any number of times, unless it says NOT NULL.
  if (!wanted.nullable && !found.notnull) throw unfit(table, name, `${declared}, NULL allowed`, want);
}

/** The affinity that SQLite derives from a declared type; BLOB for one without a type. */
function affinity(declared: string): string {
  const type = declared.toUpperCase();
  if (type.includes('INT')) return 'INTEGER';
  if (/CHAR|CLOB|TEXT/.test(type)) return 'TEXT';
  if (type === '' || type.includes('BLOB')) return 'BLOB';
  return /REAL|FLOA|DOUB/.test(type) ? 'REAL' : 'NUMERIC';
}

function uniqueKeys(connection: Connection, table: string, found: readonly FoundColumn[]): ReadonlySet<string> {
  const primary = found.filter(column => column.pk > 0).map(column => column.name);
  const keys = new Set([keyName(primary)]);
  const indexes = connection.all<{ name: string; partial: number }>(
    'SELECT name, partial FROM pragma_index_list(?) WHERE "unique" = 1',
    table,
  );
  for (const { name, partial } of indexes) {
    const columns = connection.all<{ name: string | null }>('SELECT name FROM pragma_index_info(?)', name);
    keys.add(
      keyName(
        columns.map(column => column.name ?? '(expression)'),
        partial ? true : undefined,
      ),
    );
  }
  return keys;
}

function keyName(columns: readonly string[], partial?: true): string {
  const sorted = columns.map(column => column.toLowerCase()).sort();
  return `${partial ? 'partial ' : ''}${JSON.stringify(sorted)}`;
}

function unfit(table: string, column: string, found: string, wanted: string): NevertwiceError {
  const where = column === '' ? `table "${table}"` : `table "${table}", column ${column}`;
  return new NevertwiceError(
    'NT_SCHEMA',
    `${where}: found ${found}, wanted ${wanted}; rename the table or give another tablePrefix, migrationSql() shows the tables`,
  );
}
