import { types } from 'node:util';
import { NevertwiceError } from '../../errors.ts';
import { refuseUndefined } from '../sql/template.ts';
import type { Bindable } from './connection.ts';
import type { SqliteStatement } from './database.ts';

/**
 * Values of the `sql` tag as SQLite has them: booleans as 0 and 1, dates as ISO text. The clients disagree on the rest
 * (node:sqlite binds a Date as NULL, libsql ends the process over a boolean), so nothing else gets through to them.
 */
export function bindAll(values: readonly unknown[], text: string): Bindable[] {
  refuseUndefined(values, text);
  return values.map((value, i) => bind(value, i, text));
}

function bind(value: unknown, i: number, text: string): Bindable {
  switch (typeof value) {
    case 'string':
    case 'bigint':
      return value;
    case 'boolean':
      return value ? 1n : 0n;
    case 'number':
      return bindNumber(value, i, text);
    case 'object':
      if (value === null || types.isUint8Array(value)) return value;
      if (types.isDate(value) && !Number.isNaN(value.getTime())) return value.toISOString();
  }
  throw refused(i, text, 'an object', 'pass text, e.g. JSON.stringify(value), or bytes');
}

function bindNumber(value: number, i: number, text: string): Bindable {
  if (Number.isNaN(value)) throw refused(i, text, 'NaN', 'SQLite would store NULL; pass null to mean NULL');
  // The clients bind every number as a float, and 5 becomes '5.0' in a TEXT column.
  return Number.isSafeInteger(value) ? BigInt(value) : value;
}

function refused(i: number, text: string, what: string, instead: string): NevertwiceError {
  return new NevertwiceError('NT_CONFIG', `sql: value ${i + 1} of "${text.slice(0, 60)}" is ${what}; ${instead}`);
}

/** Makes a statement give 64-bit integers as bigint; `rowsOf` turns the small ones back into numbers. */
export function safeIntegers(statement: SqliteStatement): void {
  const { setReadBigInts, safeIntegers: safe } = statement as {
    setReadBigInts?: (on: boolean) => void;
    safeIntegers?: (on: boolean) => void;
  };
  (setReadBigInts ?? safe)?.call(statement, true);
}

/** Plain objects: numbers where an integer fits, bigint beyond 2^53, blobs as Uint8Array. */
export function rowsOf(rows: readonly unknown[]): Record<string, unknown>[] {
  return rows.map(row => {
    const plain: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(row as object)) plain[name] = fromSqlite(value);
    return plain;
  });
}

function fromSqlite(value: unknown): unknown {
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  return types.isArrayBuffer(value) ? new Uint8Array(value) : value;
}
