import type { Measure, Result } from './contest.ts';

const COLUMNS = ['id', 'what', 'value', 'cpu', 'against', 'ratio', 'spread', 'target', 'met'] as const;
const TO_THE_LEFT: ReadonlySet<string> = new Set(['id', 'what', 'against', 'met']);

/** One element of what `--json` prints. The names and the ids are stable; `null` where nothing is compared. */
export interface JsonResult {
  readonly id: string;
  readonly value: number;
  readonly unit: string;
  readonly against: string | null;
  readonly ratio: number | null;
  readonly spread: number;
  /** By name, what else was measured in the same runs; only where there is something. */
  readonly more?: Readonly<Record<string, Measure>>;
}

export function jsonOf(results: readonly Result[]): readonly JsonResult[] {
  return results.map(({ id, value, unit, against, ratio, spread, more }) => ({
    id,
    value: rounded(value, 1),
    unit,
    against,
    ratio: ratio === null ? null : rounded(ratio, 1_000),
    spread: rounded(spread, 1_000),
    ...(more === undefined
      ? {}
      : { more: mapped(more, measure => ({ value: rounded(measure.value, 1), unit: measure.unit })) }),
  }));
}

/** True when the target is reached, undefined when there is none. */
export function isMet({ target, ratio, value }: Result): boolean | undefined {
  if (target === undefined) return undefined;
  return 'atMost' in target ? value <= target.atMost : ratio !== null && ratio >= target.ratio;
}

/** Tables for people: one of the comparisons, and one of rows that have more than one number. */
export function tableOf(results: readonly Result[]): string {
  const compared = results.filter(({ more }) => more === undefined);
  const plain = results.filter(({ more }) => more !== undefined);
  return [
    ...(compared.length > 0 || plain.length === 0 ? [aligned(COLUMNS, compared.map(cellsOf))] : []),
    ...(plain.length > 0 ? [plainTableOf(plain)] : []),
  ].join('\n\n');
}

function plainTableOf(results: readonly Result[]): string {
  const names = [...new Set(results.flatMap(({ more }) => Object.keys(more!)))];
  return aligned(
    ['id', 'value', 'spread', ...names],
    results.map(({ id, value, unit, spread, more }) => [
      id,
      measureOf({ value, unit }),
      percentOf(spread),
      ...names.map(name => (more![name] === undefined ? '' : measureOf(more![name]))),
    ]),
  );
}

function aligned(columns: readonly string[], lines: readonly (readonly string[])[]): string {
  const widths = columns.map((name, i) => Math.max(name.length, ...lines.map(cells => cells[i]!.length)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => (TO_THE_LEFT.has(columns[i]!) ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join('  ')
      .trimEnd();
  return [line(columns), line(widths.map(width => '─'.repeat(width))), ...lines.map(line)].join('\n');
}

function cellsOf(result: Result): readonly string[] {
  const { id, what, value, unit, against, ratio, spread, target, cpuUs } = result;
  const met = isMet(result);
  return [
    id,
    what,
    measureOf({ value, unit }),
    cpuUs === undefined ? '' : `${cpuUs.toFixed(1)} µs`,
    against ?? '',
    ratio === null ? '' : ratio.toFixed(2),
    percentOf(spread),
    target === undefined ? '' : 'ratio' in target ? `≥ ${target.ratio}` : `≤ ${target.atMost} ${unit}`,
    met === undefined ? '' : met ? 'yes' : 'NO',
  ];
}

function measureOf({ value, unit }: Measure): string {
  return `${Math.round(value).toLocaleString('en')} ${unit}`;
}

function percentOf(part: number): string {
  return `${Math.round(part * 100)} %`;
}

function mapped<T, U>(record: Readonly<Record<string, T>>, change: (value: T) => U): Readonly<Record<string, U>> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}

function rounded(value: number, parts: number): number {
  return Math.round(value * parts) / parts;
}
