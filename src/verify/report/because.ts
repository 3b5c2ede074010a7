import type { Plan } from '../plan.ts';
import type { Conviction } from '../report.ts';
import { type Case, readingOf } from './reading.ts';
import { BROKER_RULES } from './rules/broker.ts';
import { CLOCK_RULES } from './rules/clock.ts';
import { DOUBLE_RULES } from './rules/double.ts';
import { EVICTED_RULES } from './rules/evicted.ts';
import { LOST_RULES } from './rules/lost.ts';
import type { Explanation, Rule } from './rules/rule.ts';
import { listed } from './text.ts';

export interface Because extends Explanation {
  /** `#mark-first`: the section of docs/verify.md that says more. */
  readonly anchor: string;
}

/** Says no more than what is to be seen; better than a guess. */
const inGeneral: Rule = {
  anchor: '#in-general',
  explain(found) {
    const { verdict, deviation } = found.conviction;
    const tables = [...new Set(deviation.differences.map(({ table }) => table))];
    const where = listed(tables);
    const faults = found.deeds.filter(deed => deed.fault !== undefined);
    const evidence = [...faults.map(deed => deed.at), ...found.deeds.filter(found.isEffect).map(deed => deed.at)];
    if (verdict === 'double') {
      return {
        because: `a further delivery changed ${where} again, and nothing stopped it`,
        fix: 'record the message id under a unique key in the transaction of the effect, and stop when it is there',
        evidence,
      };
    }
    return {
      because: `the message is done for the broker, and ${where} ${tables.length === 1 ? 'is' : 'are'} not as one delivery leaves it`,
      fix: 'do all of it in one transaction, together with a record of the message id, and ack after its commit',
      evidence,
    };
  },
};

/** The search is cheapest first: with these it would not have come so far, had it been possible without. */
const EARLY_RULES: readonly Rule[] = [...CLOCK_RULES, ...EVICTED_RULES];

function rulesFor({ conviction }: Case): readonly Rule[] {
  if (conviction.verdict === 'double') return [...EARLY_RULES, ...DOUBLE_RULES, inGeneral];
  if (conviction.verdict === 'lost' || conviction.verdict === 'partial')
    return [...EARLY_RULES, ...LOST_RULES, inGeneral];
  if (conviction.verdict === 'wrong') return [...EARLY_RULES, ...LOST_RULES, ...DOUBLE_RULES, inGeneral];
  return [...EARLY_RULES, ...BROKER_RULES, inGeneral];
}

/** What made it possible, and what to do about it. */
export function becauseOf(conviction: Conviction, plan: Plan): Because {
  const found = readingOf(conviction, plan);
  for (const rule of rulesFor(found)) {
    const explanation = rule.explain(found);
    if (explanation !== undefined) return { anchor: rule.anchor, ...explanation };
  }
  // `inGeneral` always knows something.
  throw new Error('unreachable');
}

/** The sections that docs/verify.md must have. */
export const ANCHORS: readonly string[] = [
  ...new Set([...EARLY_RULES, ...BROKER_RULES, ...DOUBLE_RULES, ...LOST_RULES, inGeneral].map(({ anchor }) => anchor)),
];
