import type { Conviction, Report } from '../report.ts';
import { type Because, becauseOf } from './because.ts';
import { covered, notCovered } from './coverage.ts';
import { type Line, linesOf, SEALED, withoutRepeats } from './lines.ts';
import { replayOf } from './replay.ts';
import { verdictOf } from './verdict.ts';

/** Everything in one page, which loads nothing and runs nothing. */
export function html(report: Report): string {
  const verdict = verdictOf(report);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escaped(`${report.handler}: ${report.convictions[0]?.verdict ?? report.verdict}`)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<p class="what">nevertwice verify</p>
<h1><code>${escaped(report.handler)}</code></h1>
${report.convictions.length === 0 ? `<p class="verdict ${report.verdict}">${escaped(verdict)}</p>` : report.convictions.map(one => conviction(one, report)).join('\n')}
${coverage(report)}
</main>
</body>
</html>
`;
}

function conviction(found: Conviction, report: Report): string {
  const because = becauseOf(found, report.plan);
  const kinds = { double: 'double', lost: 'lost', wrong: 'wrong' };
  const differences = found.deviation.differences.map(
    ({ kind, table, text }) =>
      `<li><strong>${table === 'broker' ? found.verdict : kinds[kind]}</strong> ${escaped(text)}</li>`,
  );
  return `<section>
<p class="verdict convicted">${escaped(verdictOf(report, found))}</p>
<ul class="differences">
${differences.join('\n')}
</ul>
<dl>
<dt>Because</dt><dd>${escaped(because.because)}.</dd>
<dt>Fix</dt><dd>${escaped(because.fix)}.</dd>
<dt>More</dt><dd><code>docs/verify.md${escaped(because.anchor)}</code></dd>
</dl>
${timeline(found, report, because)}
<h2>Play it again</h2>
<pre>${escaped(replayOf(report, found))}</pre>
</section>`;
}

function timeline(found: Conviction, report: Report, because: Because): string {
  const consumers = [...new Set(found.trace.events.map(event => event.who))].sort((a, b) => a - b);
  const evidence = new Set(because.evidence);
  const rows = withoutRepeats(linesOf(found, report.plan)).map((line, i) => {
    const cell = `<div class="step${line.events.some(at => evidence.has(at)) ? ' evidence' : ''}${line.failed ? ' failed' : ''}">${said(line)}</div>`;
    const cells =
      line.who === undefined
        ? `<td colspan="${consumers.length}" class="broker">${said(line)}</td>`
        : consumers.map(who => (who === line.who ? `<td>${cell}</td>` : '<td></td>')).join('');
    return `<tr${line.sealed ? ' class="sealed"' : ''}><th scope="row">${i + 1}</th>${cells}</tr>`;
  });
  return `<h2>What happened</h2>
<div class="scroll">
<table>
<thead><tr><th scope="col"><span class="hidden">step</span></th>${consumers.map(who => `<th scope="col">consumer ${who}</th>`).join('')}</tr></thead>
<tbody>
${rows.join('\n')}
</tbody>
</table>
</div>`;
}

function said(line: Line): string {
  const text = line.who === undefined ? escaped(line.text) : `<code>${escaped(line.text)}</code>`;
  return [
    text,
    line.result === '' ? '' : `<span class="result">${escaped(line.result)}</span>`,
    ...line.marks.map(mark => `<span class="fault">${escaped(mark)}</span>`),
    line.sealed ? `<span class="seal">${escaped(SEALED)}</span>` : '',
  ]
    .filter(part => part !== '')
    .join(' ');
}

function coverage(report: Report): string {
  const masked =
    report.masked.length === 0
      ? ''
      : `<dt>Not compared</dt><dd>${escaped(report.masked.join(', '))} (different in every run)</dd>`;
  return `<section>
<h2>What this says, and what not</h2>
<dl>
<dt>Tried</dt><dd>${escaped(covered(report))}</dd>
<dt>Not tried</dt><dd>${escaped(notCovered(report).join('; '))}</dd>
${masked}
</dl>
</section>`;
}

const CODES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, char => CODES[char]!).replace(/[^\P{Cc}\t\n]/gu, '\uFFFD');
}

const STYLE = `
:root { --text: #1c2024; --soft: #60666d; --page: #ffffff; --card: #f4f5f7; --line: #d9dce0; --bad: #b3261e; --good: #1b6e3c; --warn: #8a5a00; --warnback: #fff3d6; --mark: #3b63c4; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e6e9; --soft: #9aa1a9; --page: #15181b; --card: #20252a; --line: #363c43; --bad: #ff8a80; --good: #7bd69b; --warn: #ffcf70; --warnback: #3a2f14; --mark: #8fb0ff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 2rem 1.5rem 4rem; }
.what { margin: 0; color: var(--soft); }
h1 { margin: 0 0 1rem; font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 .5rem; font-size: 1.1rem; }
code, pre { font-family: ui-monospace, 'DejaVu Sans Mono', monospace; }
.verdict { margin: 0 0 1rem; padding: .6rem .9rem; border-left: .3rem solid; background: var(--card); font-weight: 600; }
.verdict.once { color: var(--good); }
.verdict.convicted { color: var(--bad); }
.verdict.unknown { color: var(--warn); }
.differences { margin: 0 0 1rem; padding: 0; list-style: none; }
.differences strong { color: var(--bad); text-transform: uppercase; margin-right: .5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1rem; margin: 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; table-layout: fixed; min-width: 40rem; }
th { text-align: left; font-weight: 600; padding: .3rem .4rem; vertical-align: top; }
thead th { border-bottom: 1px solid var(--line); }
tr > :first-child { width: 2.6rem; color: var(--soft); font-weight: 400; text-align: right; font-variant-numeric: tabular-nums; }
td { padding: .2rem .4rem; vertical-align: top; border-left: 1px dashed var(--line); }
.step { background: var(--card); border-left: .2rem solid transparent; border-radius: .25rem; padding: .3rem .55rem; font-size: .85rem; overflow-wrap: anywhere; }
.step.evidence { border-left-color: var(--mark); }
.step.failed .result { color: var(--bad); }
.result { color: var(--soft); white-space: nowrap; }
.failed .result { white-space: normal; }
.fault { display: inline-block; background: var(--warnback); color: var(--warn); border-radius: .25rem; padding: 0 .35rem; font-weight: 600; }
.broker { color: var(--soft); font-style: italic; font-size: .9rem; border-top: 1px dotted var(--soft); border-bottom: 1px dotted var(--soft); }
.seal { color: var(--bad); font-weight: 600; font-style: normal; white-space: nowrap; }
.sealed td, .sealed th { border-bottom: 2px solid var(--bad); }
pre { margin: 0; padding: .7rem .9rem; background: var(--card); overflow-x: auto; font-size: .85rem; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
`;
