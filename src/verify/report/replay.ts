import type { Conviction, Report } from '../report.ts';
import { shellWord } from './text.ts';

/** The command that plays it again; of a consumer that the caller makes, the option. */
export function replayOf(report: Report, conviction: Conviction): string {
  if (report.plan.code.kind === 'factory') return `verify({ …, replay: '${conviction.token}' })`;
  const command = report.command ?? `npx nevertwice verify ${shellWord(report.handler)}`;
  return `${command} --replay ${shellWord(conviction.token)}`;
}
