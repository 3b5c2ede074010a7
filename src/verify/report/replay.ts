import type { Conviction, Report } from '../report.ts';
import { shellWord } from './text.ts';

/** The command that plays it again; of a consumer that the caller makes, the option. */
export function replayOf(report: Report, conviction: Conviction): string {
  if (report.plan.code.kind === 'factory') return `verify({ …, replay: '${conviction.token}' })`;
  return `npx nevertwice verify ${shellWord(report.handler)} --replay ${shellWord(conviction.token)}`;
}
