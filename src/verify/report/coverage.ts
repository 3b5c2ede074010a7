import type { Report } from '../report.ts';
import { many } from './text.ts';

/** Consumers that take part in an execution. */
const CONSUMERS = 2;

/** `2 troubles (1 crash, 1 cut connection)` */
export function troubles({ bounds, readsClock, plan }: Report): string {
  const kinds: readonly (readonly [number, string, string])[] = [
    [bounds.crashes, 'crash', 'crashes'],
    [bounds.faults, 'cut connection', 'cut connections'],
    [bounds.duplicates, 'extra copy', 'extra copies'],
    [bounds.inFlight, 'late request', 'late requests'],
    [bounds.preemptions, 'switch', 'switches'],
    [readsClock ? bounds.clocks : 0, 'clock ahead', 'clocks ahead'],
    [plan.evicts.length > 0 || plan.prune !== '' ? bounds.evictions : 0, 'loss of records', 'losses of records'],
  ];
  const possible = kinds.filter(([n]) => n > 0).map(([n, one, more]) => many(Math.min(n, bounds.total), one, more));
  return `${many(bounds.total, 'trouble')}${possible.length === 0 ? '' : ` (${possible.join(', ')})`}`;
}

/** What was tried. */
export function covered(report: Report): string {
  const { plan, completeTo, verdict, bounds, walks } = report;
  const setting = `${many(CONSUMERS, 'consumer')}, ${many(plan.messages.length, 'message')}`;
  const where = `what ${plan.rules.name} and the network can do`;
  if (completeTo < 0) return `single executions of ${where}; ${setting}`;
  const most = verdict === 'once' ? bounds.total : Math.min(completeTo, bounds.total);
  const complete =
    most === 0 ? 'the delivery without any trouble' : `all of ${where} with at most ${many(most, 'trouble')}`;
  const chance = walks === 0 ? 'some' : `${walks} by chance`;
  return `${complete}${most < bounds.total ? `, and ${chance} with more` : ''}; ${setting}`;
}

/** What a green result says nothing of. */
export function notCovered(report: Report): readonly string[] {
  const { plan, verdict, bounds } = report;
  const missing: string[] = [];
  if (verdict === 'convicted') missing.push('what else may be wrong: the search stopped here');
  missing.push(`more than ${many(bounds.total, 'trouble')} in one execution, or ${CONSUMERS + 1} consumers and more`);
  missing.push('other messages, and branches of the handler that these do not reach');
  missing.push(
    plan.code.kind === 'factory' ? 'clocks that differ, and data that a server loses' : 'data that a server loses',
  );
  if (plan.order === 'any' && plan.messages.length > 1)
    missing.push('the order of the messages (order: as-sent looks at it)');
  if (plan.ignore.length > 0) missing.push(`ignored: ${plan.ignore.join(', ')}`);
  if (plan.accept.length > 0) missing.push(`may happen twice: ${plan.accept.join(', ')}`);
  return missing;
}
