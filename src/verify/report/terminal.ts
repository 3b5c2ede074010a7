import type { Report } from '../report.ts';
import { convictionText, coverageText } from './story.ts';
import { verdictOf } from './verdict.ts';

/** The whole report for a person at a terminal. */
export function terminal(report: Report, width: number, colour: boolean): string {
  const blocks =
    report.convictions.length === 0
      ? [[verdictOf(report)]]
      : report.convictions.map(one => [verdictOf(report, one), '', ...convictionText(one, report, width)]);
  const lines = [...blocks.flatMap(block => [...block, '']), ...coverageText(report, width)];
  return (colour ? lines.map(painted) : lines).join('\n');
}

const [RED, GREEN, YELLOW, DIM, BOLD] = [31, 32, 33, 2, 1];

function paint(code: number, text: string): string {
  return `\x1b[${code}m${text}\x1b[0m`;
}

/** Colours follow from the signs, so that nothing is said by colour alone. */
function painted(line: string): string {
  if (line.startsWith('✔')) return paint(GREEN, line);
  if (line.startsWith('?')) return paint(YELLOW, line);
  if (line.startsWith('✖')) return paint(RED, line);
  return line
    .replace(/^( {4})([A-Z]{4,})(?= {2})/, (_, space, word) => `${space}${paint(RED, word)}`)
    .replace(
      /^( {4})(because|fix|more|replay|tried|not tried|not compared)(?= {2})/,
      (_, space, word) => `${space}${paint(BOLD, word)}`,
    )
    .replace(/⚡.*?(?=$| +(?:│|←))/g, found => paint(YELLOW, found))
    .replace(/← from here nothing can save it/, found => paint(RED, found))
    .replace(/┄{2,}/g, found => paint(DIM, found));
}
