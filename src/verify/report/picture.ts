import type { Plan } from '../plan.ts';
import type { Conviction } from '../report.ts';
import type { Because } from './because.ts';
import { atMost, type Line, linesOf, SEALED, withoutRepeats } from './lines.ts';
import { readingOf } from './reading.ts';
import { cut, padded, widthOf, wrapped } from './text.ts';

const GUTTER = 4;
/** Narrower than this, two columns hold nothing. */
const TWO_COLUMNS_FROM = 100;
const MOST_LINES = 12;
/** Several messages have more to tell. */
const MOST_LINES_OF_SEVERAL = 24;
const TEXT_LINES = 2;

/** The lines worth telling: no more than anybody wants to read. */
export function storyLines(conviction: Conviction, plan: Plan, because: Because): readonly Line[] {
  const found = readingOf(conviction, plan);
  const evidence = new Set(because.evidence);
  const effects = new Set(found.deeds.filter(deed => found.isEffect(deed) || found.isMark(deed)).map(deed => deed.at));
  const commits = new Set(found.deeds.filter(deed => deed.statement.kind === 'commit').map(deed => deed.at));
  const weightOf = (line: Line): number => {
    const events = line.events.map(at => conviction.trace.events[at]!);
    if (line.marks.length > 0 || events.some(event => event.event === 'land')) return 6;
    if (line.isDelivery || line.sealed) return 5;
    if (line.failed || events.some(event => event.event === 'unblocked' || (event.event === 'step' && event.waited)))
      return 4;
    if (line.events.some(at => evidence.has(at))) return 3;
    if (line.events.some(at => effects.has(at))) return 2;
    return line.events.some(at => commits.has(at)) ? 1 : 0;
  };
  const most = plan.messages.length > 1 ? MOST_LINES_OF_SEVERAL : MOST_LINES;
  return atMost(withoutRepeats(linesOf(conviction, plan)), most, weightOf);
}

/** Who did what, in the order in which it happened: a column for each of two consumers where there is room. */
export function picture(conviction: Conviction, plan: Plan, because: Because, width: number): readonly string[] {
  const lines = storyLines(conviction, plan, because);
  const consumers = [...new Set(conviction.trace.events.map(event => event.who))].sort((a, b) => a - b);
  if (consumers.length === 2 && width >= TWO_COLUMNS_FROM) return twoColumns(lines, consumers, width);
  return oneColumn(lines, consumers.length > 1, width);
}

function twoColumns(lines: readonly Line[], [left]: readonly number[], width: number): string[] {
  const column = Math.floor((width - GUTTER - 3) / 2);
  const blank = ' '.repeat(GUTTER);
  const row = (first: string, cells: readonly [string, string]) =>
    `${padded(first, GUTTER)}${padded(cells[0], column)} │ ${cells[1]}`.trimEnd();
  const picture = [
    row('', [`consumer ${left}`, `consumer ${left! + 1}`]),
    `${blank}${'─'.repeat(column)}─┼─${'─'.repeat(column)}`,
  ];
  lines.forEach((line, i) => {
    if (line.who === undefined) picture.push(...across(line, i + 1, width));
    else {
      const cell = cellOf(line, column);
      picture.push(
        ...cell.map((text, n) => row(n === 0 ? numbered(i + 1) : '', line.who === left ? [text, ''] : ['', text])),
      );
    }
  });
  return picture;
}

function oneColumn(lines: readonly Line[], tagged: boolean, width: number): string[] {
  const column = width - GUTTER - (tagged ? 4 : 0);
  return lines.flatMap((line, i) => {
    if (line.who === undefined) return across(line, i + 1, width);
    return cellOf(line, column).map((text, n) =>
      `${n === 0 ? numbered(i + 1) : ' '.repeat(GUTTER)}${tagged ? padded(n === 0 ? `c${line.who}` : '', 4) : ''}${text}`.trimEnd(),
    );
  });
}

function numbered(n: number): string {
  return `${String(n).padStart(2)}  `;
}

/** What the broker does lies across all columns. */
function across(line: Line, n: number, width: number): string[] {
  const room = width - GUTTER;
  const said = [line.text, ...line.marks, ...(line.sealed ? [SEALED] : [])].join('  ');
  const texts = wrapped(said, room - 6);
  return texts.map((text, i) => {
    const begun = `${i === 0 ? numbered(n) : ' '.repeat(GUTTER)}${i === 0 ? '┄┄ ' : '   '}${text}`;
    return i === texts.length - 1 ? padded(`${begun} `, width, '┄') : begun;
  });
}

/** Statement, result and marks, with what is too long of the statement left out. */
function cellOf(line: Line, column: number): string[] {
  const result = line.result === '' ? '' : cut(line.result, column - 2);
  const cell = wrapped(line.text, column);
  if (cell.length > TEXT_LINES)
    cell.splice(TEXT_LINES - 1, Number.POSITIVE_INFINITY, cut(`${cell.slice(TEXT_LINES - 1).join(' ')}`, column));
  if (result !== '') {
    const last = cell.at(-1)!;
    if (widthOf(last) + 1 + widthOf(result) <= column) cell[cell.length - 1] = `${last} ${result}`;
    else if (cell.length < TEXT_LINES || widthOf(result) > column / 2) cell.push(`  ${result}`);
    else cell[cell.length - 1] = `${cut(last, column - widthOf(result) - 1)} ${result}`;
  }
  for (const mark of [...line.marks, ...(line.sealed ? [SEALED] : [])]) {
    const last = cell.at(-1)!;
    if (widthOf(last) + 2 + widthOf(mark) <= column) cell[cell.length - 1] = `${last}  ${mark}`;
    else cell.push(`  ${mark}`);
  }
  return cell;
}
