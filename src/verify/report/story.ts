import type { Conviction, Report } from '../report.ts';
import { becauseOf } from './because.ts';
import { covered, notCovered } from './coverage.ts';
import { picture } from './picture.ts';
import { replayOf } from './replay.ts';
import { clean, wrapped } from './text.ts';
import { verdictOf } from './verdict.ts';

/** What an assertion that fails is shown in is rarely wider, and rarely says how wide it is. */
const WIDTH = 100;
/** As wide as the longest label, so that all texts stand below each other. */
const LABEL = 18;

/** The first conviction as plain text, for an assertion that fails. */
export function storyOf(report: Report, width = WIDTH): string {
  const [conviction] = report.convictions;
  return [
    verdictOf(report, conviction),
    ...(conviction === undefined ? [] : ['', ...convictionText(conviction, report, width)]),
    '',
    ...coverageText(report, width),
  ].join('\n');
}

/** Picture, differences, why, what to do, and how to see it again. */
export function convictionText(conviction: Conviction, report: Report, width: number): readonly string[] {
  const because = becauseOf(conviction, report.plan);
  const kinds = { double: 'DOUBLE', lost: 'LOST', wrong: 'WRONG' };
  return [
    ...picture(conviction, report.plan, because, width),
    '',
    ...conviction.deviation.differences.flatMap(({ kind, table, text }) =>
      entry(table === 'broker' ? conviction.verdict.toUpperCase() : kinds[kind], clean(text), width),
    ),
    '',
    ...entry('because', clean(because.because), width),
    ...entry('fix', clean(because.fix), width),
    ...entry('more', `docs/verify.md${because.anchor}`, width),
    // A command that is broken into lines cannot be pasted.
    `${'    replay'.padEnd(LABEL)}${replayOf(report, conviction)}`,
  ];
}

export function coverageText(report: Report, width: number): readonly string[] {
  return [
    ...entry('tried', covered(report), width),
    ...entry('not tried', notCovered(report).join('; '), width),
    ...(report.masked.length === 0
      ? []
      : entry('not compared', `${report.masked.map(clean).join(', ')} (different in every run)`, width)),
  ];
}

function entry(label: string, text: string, width: number): string[] {
  return wrapped(text, width - LABEL).map((line, i) => `${i === 0 ? `    ${label}` : ''}`.padEnd(LABEL) + line);
}
