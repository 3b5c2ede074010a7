import type { ColumnFacts } from './places/postgres.ts';
import type { Row, State } from './world.ts';

/** What is not compared. */
export class Mask {
  readonly #whole = new Set<string>();
  readonly #columns = new Set<string>();
  /** In every table. */
  readonly #everywhere = new Set<string>();

  /** @param ignore `table`, `table.column` or `*.column` */
  constructor(ignore: readonly string[]) {
    for (const one of ignore) {
      if (one.startsWith('*.')) this.#everywhere.add(one.slice(2));
      else if (one.includes('.') && !one.startsWith('http ')) this.#columns.add(one);
      this.#whole.add(one);
    }
  }

  get learned(): readonly string[] {
    return [...this.#learned];
  }

  readonly #learned = new Set<string>();

  learn(column: string): void {
    this.#columns.add(column);
    this.#learned.add(column);
  }

  hides(table: string): boolean {
    return this.#whole.has(table);
  }

  /** The row without what is not compared. */
  of(table: string, row: Row): Row {
    return Object.fromEntries(
      Object.entries(row).filter(
        ([column]) => !this.#everywhere.has(column) && !this.#columns.has(`${table}.${column}`),
      ),
    );
  }
}

/**
 * Columns in which two executions of the same delivery differ hold the time, a random id or the like: they say nothing of
 * what the message did.
 */
export function learnNoise(mask: Mask, one: State, other: State): void {
  for (const [table, rows] of one) {
    const others = other.get(table) ?? [];
    if (rows.length !== others.length) continue;
    for (const column of new Set(rows.flatMap(row => Object.keys(row)))) {
      const values = (of: readonly Row[]) =>
        of
          .map(row => row[column] ?? null)
          .sort()
          .join('\0');
      if (values(rows) !== values(others)) mask.learn(`${table}.${column}`);
    }
  }
}

export type VerdictName = 'double' | 'lost' | 'partial' | 'reordered' | 'stuck' | 'poisoned' | 'wrong';

/** One thing that is not as it should be. */
export interface Difference {
  readonly table: string;
  readonly kind: 'double' | 'lost' | 'wrong';
  /** For people: `accounts.balance 90 → 80 (−10 applied 2×)`. */
  readonly text: string;
}

/** What is wrong with an end state, compared to the nearest of those that are right. */
export interface Deviation {
  readonly verdict: VerdictName;
  readonly differences: readonly Difference[];
}

export interface Oracle {
  readonly seed: State;
  /** End states that are right: one for each order in which the messages may take effect. */
  readonly right: readonly State[];
  /** End states of orders that may not be. */
  readonly reordered: readonly State[];
  readonly mask: Mask;
  readonly accept: ReadonlySet<string>;
  readonly columns: ColumnFacts | undefined;
  /** Tables whose rows only say that a message was seen: that one is there is no effect of it. */
  readonly marks: ReadonlySet<string>;
}

/**
 * Tables in which a plain delivery leaves nothing of the message but what names it: `processed(id)`, with a time or a
 * constant beside it.
 */
export function marksIn(mask: Mask, seed: State, right: State, messages: readonly object[]): ReadonlySet<string> {
  const ids = new Set<string>();
  const others = new Set<string>();
  for (const message of messages) {
    for (const [name, value] of leaves(message, '')) (/id$|^key$|uuid/i.test(name) ? ids : others).add(value);
  }
  const marks = new Set<string>();
  for (const [table, rows] of right) {
    const known = new Set((seed.get(table) ?? []).map(row => JSON.stringify(mask.of(table, row))));
    const added = rows.map(row => mask.of(table, row)).filter(row => !known.has(JSON.stringify(row)));
    const values = added.map(row => Object.values(row).filter(value => value !== null));
    const names = (value: string) => [...ids].some(id => value === id || (id.length > 1 && value.includes(id)));
    if (
      added.length > 0 &&
      values.every(row => row.some(names) && !row.some(value => others.has(value) && !ids.has(value)))
    ) {
      marks.add(table);
    }
  }
  return marks;
}

function* leaves(value: unknown, name: string): Iterable<readonly [string, string]> {
  if (typeof value !== 'object' || value === null) yield [name, String(value)];
  else for (const [key, inner] of Object.entries(value)) yield* leaves(inner, key);
}

/** Undefined when the end state is one of those that are right. */
export function judge(oracle: Oracle, state: State): Deviation | undefined {
  const all = oracle.right.map(right => differences(oracle, right, state));
  if (all.some(found => found.length === 0)) return undefined;
  if (oracle.reordered.some(other => differences(oracle, other, state).length === 0)) {
    return { verdict: 'reordered', differences: all[0]! };
  }
  const nearest = all.reduce((best, found) => (found.length < best.length ? found : best));
  const kinds = new Set(nearest.map(found => found.kind));
  if (kinds.has('double')) return { verdict: 'double', differences: nearest };
  if (kinds.has('lost')) {
    const touched = changedTables(oracle);
    const missing = new Set(nearest.filter(found => found.kind === 'lost').map(found => found.table));
    const some = [...touched].some(table => !missing.has(table) && !oracle.marks.has(table));
    return { verdict: some ? 'partial' : 'lost', differences: nearest };
  }
  return { verdict: 'wrong', differences: nearest };
}

/** Tables that plain deliveries change. */
export function changedTables(oracle: Oracle): ReadonlySet<string> {
  const right = oracle.right[0]!;
  const tables = [...right.keys()].filter(table => !oracle.mask.hides(table));
  const same = (table: string) =>
    multiset(oracle, table, oracle.seed).join('\n') === multiset(oracle, table, right).join('\n');
  return new Set(tables.filter(table => !same(table)));
}

function multiset({ mask }: Oracle, table: string, state: State): string[] {
  return (state.get(table) ?? []).map(row => JSON.stringify(mask.of(table, row))).sort();
}

function differences(oracle: Oracle, right: State, got: State): Difference[] {
  const found: Difference[] = [];
  for (const table of new Set([...right.keys(), ...got.keys()])) {
    if (oracle.mask.hides(table)) continue;
    const expected = multiset(oracle, table, right);
    const actual = multiset(oracle, table, got);
    const missing = minus(expected, actual);
    const extra = minus(actual, expected);
    if (missing.length === 0 && extra.length === 0) continue;
    const here = inTable(oracle, table, missing.map(parsed), extra.map(parsed), expected.length, actual.length);
    found.push(...here.filter(one => !(one.kind === 'double' && oracle.accept.has(table))));
  }
  return found;
}

function parsed(row: string): Row {
  return JSON.parse(row) as Row;
}

function minus(all: readonly string[], without: readonly string[]): string[] {
  const left = new Map<string, number>();
  for (const one of without) left.set(one, (left.get(one) ?? 0) + 1);
  return all.filter(one => {
    const n = left.get(one) ?? 0;
    if (n > 0) left.set(one, n - 1);
    return n === 0;
  });
}

function inTable(
  oracle: Oracle,
  table: string,
  missing: readonly Row[],
  extra: readonly Row[],
  expectedRows: number,
  actualRows: number,
): Difference[] {
  const found: Difference[] = [];
  const key = table === 'redis' ? ['key'] : (oracle.columns?.keyOf(table) ?? []);
  const rest = [...extra];
  const gone: Row[] = [];
  for (const row of missing) {
    const at = key.length === 0 ? -1 : rest.findIndex(other => key.every(column => other[column] === row[column]));
    if (at === -1) {
      gone.push(row);
      continue;
    }
    const [other] = rest.splice(at, 1);
    const before = (oracle.seed.get(table) ?? []).find(seed => key.every(column => seed[column] === row[column]));
    found.push(...byColumn(table, before, row, other!));
  }
  if (gone.length > 0 && rest.length === gone.length && key.length === 0) {
    // Without a key the rows that differ are taken in their order.
    for (const [i, row] of gone.entries()) found.push(...byColumn(table, undefined, row, rest[i]!));
    return found;
  }
  const rows = (n: number) => `${n} row${n === 1 ? '' : 's'}`;
  if (gone.length > 0)
    found.push({
      table,
      kind: 'lost',
      text: `${table}  ${rows(actualRows)} instead of ${expectedRows}; missing ${short(gone[0]!)}`,
    });
  if (rest.length > 0)
    found.push({
      table,
      kind: 'double',
      text: `${table}  ${rows(actualRows)} instead of ${expectedRows}; one too many: ${short(rest[0]!)}`,
    });
  return found;
}

function byColumn(table: string, before: Row | undefined, right: Row, got: Row): Difference[] {
  return Object.keys(right)
    .filter(column => right[column] !== got[column])
    .map(column => {
      const [was, should, is] = [before?.[column] ?? null, right[column] ?? null, got[column] ?? null];
      const where = `${table}.${column}  ${should} expected, ${is} found`;
      const [w, s, i] = [was, should, is].map(value => (value === null || value === '' ? Number.NaN : Number(value)));
      const step = s! - (Number.isNaN(w!) ? 0 : w!);
      const times = (i! - (Number.isNaN(w!) ? 0 : w!)) / step;
      if (!Number.isFinite(times) || step === 0) return { table, kind: 'wrong' as const, text: where };
      const signed = step > 0 ? `+${step}` : `−${-step}`;
      if (times > 1)
        return {
          table,
          kind: 'double' as const,
          text: `${where} (${signed} applied ${Number.isInteger(times) ? `${times}×` : `${times.toFixed(2)}×`})`,
        };
      if (times === 0) return { table, kind: 'lost' as const, text: `${where} (${signed} not applied)` };
      if (times > 0 && times < 1)
        return { table, kind: 'lost' as const, text: `${where} (a part of ${signed} is missing)` };
      return { table, kind: 'wrong' as const, text: where };
    });
}

function short(row: Row): string {
  const text = Object.entries(row)
    .map(([column, value]) => `${column}=${value ?? 'NULL'}`)
    .join(' ');
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}
