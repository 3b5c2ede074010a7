import type { Report } from '../report.ts';
import { becauseOf } from './because.ts';
import { linesOf, SEALED } from './lines.ts';
import type { Step } from './reading.ts';
import { clean, cut } from './text.ts';
import { verdictOf } from './verdict.ts';

const PLACES: Readonly<Record<Step['place'], readonly [string, string]>> = {
  broker: ['B', 'broker'],
  postgres: ['PG', 'PostgreSQL'],
  redis: ['R', 'Redis'],
  http: ['H', 'HTTP'],
  sqlite: ['S', 'SQLite'],
};
/** A label that is longer makes the whole diagram too wide to read. */
const LABEL = 90;

/** A sequence diagram, as GitHub draws it in a comment. */
export function mermaid(report: Report): string {
  const [conviction] = report.convictions;
  if (conviction === undefined)
    return ['sequenceDiagram', '  participant B as broker', `  Note over B: ${label(verdictOf(report), 200)}`, ''].join(
      '\n',
    );
  const { events } = conviction.trace;
  const places = new Set<Step['place']>([
    'broker',
    ...events.flatMap(event => (event.event === 'step' || event.event === 'land' ? [event.place] : [])),
  ]);
  const consumers = [...new Set(events.map(event => event.who))].sort((a, b) => a - b);
  const servers = [...places].filter(place => place !== 'broker');
  const body = linesOf(conviction, report.plan).flatMap(line => {
    const event = events[line.events.at(-1)!]!;
    const who = `C${event.who}`;
    const said = label([line.text, line.result, ...line.marks].filter(part => part !== '').join(' '));
    const note = line.sealed ? [`  Note over ${who}: ${label(SEALED)}`] : [];
    if (event.event === 'deliver') return [`  B->>${who}: ${said}`, ...note];
    if (event.event === 'exited') return [`  Note over ${who}: ${said}`, ...note];
    if (event.event === 'unblocked') return [`  ${PLACES.postgres[0]}-->>${who}: ${said}`, ...note];
    const to = PLACES[event.place][0];
    if (event.event === 'land') return [`  ${who}-->>${to}: ${said}`, ...note];
    // A cross at its head: it did not get there, or its answer did not come back.
    return [`  ${who}${event.fault === undefined ? '->>' : '-x'}${to}: ${said}`, ...note];
  });
  const { because, fix } = becauseOf(conviction, report.plan);
  const actors = [...consumers.map(who => `C${who}`), ...servers.map(place => PLACES[place][0])];
  const over = actors.length > 1 ? `${actors[0]},${actors.at(-1)}` : actors[0];
  return [
    'sequenceDiagram',
    '  autonumber',
    '  participant B as broker',
    ...consumers.map(who => `  participant C${who} as consumer ${who}`),
    ...servers.map(place => `  participant ${PLACES[place][0]} as ${PLACES[place][1]}`),
    ...body,
    ...conviction.deviation.differences.map(({ text }) => `  Note over ${over}: ${label(text, 200)}`),
    `  Note over ${over}: ${label(`${because}. Fix: ${fix}.`, 600)}`,
    '',
  ].join('\n');
}

/**
 * Mermaid ends a text at `;`, `#` and a line's end, takes `%%` for a comment, `$$` for a formula, and what looks like HTML for
 * HTML; numbers of characters it puts back. Behind `style` and `classDef` it would take such a number apart.
 */
function label(text: string, most = LABEL): string {
  return cut(clean(text), most)
    .replace(/[#;<>&"%$`\\{}]|(?<=\b|[a-z])(?:s(?=tyle)|c(?=lassDef))/g, char => `#${char.codePointAt(0)};`)
    .replace(/^((?:no)?)wrap:/, '$1wrap#58;');
}
