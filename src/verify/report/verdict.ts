import type { Conviction, Report } from '../report.ts';
import { troubles } from './coverage.ts';
import { clean, many } from './text.ts';

/** The one line that says it all. */
export function verdictOf(report: Report, conviction: Conviction | undefined = report.convictions[0]): string {
  if (report.verdict === 'unknown') return `? unknown: ${clean(report.why ?? 'nothing can be said')}`;
  if (conviction !== undefined) {
    return `✖ ${conviction.verdict}: found after ${executions(conviction.executions)} (${seconds(conviction.ms)})`;
  }
  const messages = many(report.plan.messages.length, 'message');
  return `✔ once: ${executions(report.executions)} in ${seconds(report.ms)}, complete for at most ${troubles(report)}, 2 consumers, ${messages}`;
}

function executions(n: number): string {
  return many(n, 'execution').replace(/\d+/, digits => digits.replace(/\B(?=(?:\d{3})+$)/g, ','));
}

export function seconds(ms: number): string {
  return ms < 99_950 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 1_000)} s`;
}
