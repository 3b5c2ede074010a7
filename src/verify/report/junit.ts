import type { Report } from '../report.ts';
import { storyOf } from './story.ts';
import { verdictOf } from './verdict.ts';

/** One test case: what it is about is the handler, and what it says is the story. */
export function junit(report: Report, width: number): string {
  const time = (report.ms / 1_000).toFixed(3);
  const [failures, errors] = [Number(report.verdict === 'convicted'), Number(report.verdict === 'unknown')];
  const counts = `tests="1" failures="${failures}" errors="${errors}" time="${time}"`;
  const testcase = `<testcase classname="nevertwice.verify" name="${attribute(report.handler)}" time="${time}"`;
  const kind = failures === 1 ? 'failure' : 'error';
  const type = report.convictions[0]?.verdict ?? report.verdict;
  const result =
    failures + errors === 0
      ? [`    ${testcase}>`, `      <system-out>${content(storyOf(report, width))}</system-out>`, '    </testcase>']
      : [
          `    ${testcase}>`,
          `      <${kind} type="${attribute(type)}" message="${attribute(verdictOf(report))}">${content(storyOf(report, width))}</${kind}>`,
          '    </testcase>',
        ];
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="nevertwice verify" ${counts}>`,
    `  <testsuite name="nevertwice verify" skipped="0" ${counts}>`,
    ...result,
    '  </testsuite>',
    '</testsuites>',
    '',
  ].join('\n');
}

/** XML has no way to write most control characters, and half a pair of surrogates is none at all. */
function content(text: string): string {
  return text
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD')
    .replace(/[<>&]/g, char => `&#${char.charCodeAt(0)};`);
}

function attribute(text: string): string {
  return content(text).replace(/["'\t\n\r]/g, char => `&#${char.charCodeAt(0)};`);
}
