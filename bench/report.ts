import type { Result } from './contest.ts';

const COLUMNS = ['id', 'what', 'value', 'cpu', 'against', 'ratio', 'spread', 'target', 'met'] as const;
const TO_THE_RIGHT: ReadonlySet<string> = new Set(['value', 'cpu', 'ratio', 'spread', 'target']);

/** One element of what `--json` prints. The names and the ids are stable; `null` where nothing is compared. */
export interface JsonResult {
  readonly id: string;
  readonly value: number;
  readonly unit: string;
  readonly against: string | null;
  readonly ratio: number | null;
  readonly spread: number;
}

export function jsonOf(results: readonly Result[]): readonly JsonResult[] {
  return results.map(({ id, value, unit, against, ratio, spread }) => ({
    id,
    value: rounded(value, 1),
    unit,
    against,
    ratio: ratio === null ? null : rounded(ratio, 1_000),
    spread: rounded(spread, 1_000),
  }));
}

/** True when the target is reached, undefined when there is none. */
export function isMet({ target, ratio, value }: Result): boolean | undefined {
  if (target === undefined) return undefined;
  return 'atMost' in target ? value <= target.atMost : ratio !== null && ratio >= target.ratio;
}

/** A table for people. */
export function tableOf(results: readonly Result[]): string {
  const lines = results.map(result => cellsOf(result));
  const widths = COLUMNS.map((name, i) => Math.max(name.length, ...lines.map(cells => cells[i]!.length)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => (TO_THE_RIGHT.has(COLUMNS[i]!) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd();
  return [line(COLUMNS), line(widths.map(width => '─'.repeat(width))), ...lines.map(line)].join('\n');
}

function cellsOf(result: Result): readonly string[] {
  const { id, what, value, unit, against, ratio, spread, target, cpuUs } = result;
  const met = isMet(result);
  return [
    id,
    what,
    `${Math.round(value).toLocaleString('en')} ${unit}`,
    cpuUs === undefined ? '' : `${cpuUs.toFixed(1)} µs`,
    against ?? '',
    ratio === null ? '' : ratio.toFixed(2),
    `${Math.round(spread * 100)} %`,
    target === undefined ? '' : 'ratio' in target ? `≥ ${target.ratio}` : `≤ ${target.atMost} ${unit}`,
    met === undefined ? '' : met ? 'yes' : 'NO',
  ];
}

function rounded(value: number, parts: number): number {
  return Math.round(value * parts) / parts;
}
