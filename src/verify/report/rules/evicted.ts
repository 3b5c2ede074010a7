import { nameOf } from '../reading.ts';
import type { Rule } from './rule.ts';

/** A copy that came when nothing was left that knew it. */
export const EVICTED_RULES: readonly Rule[] = [
  {
    anchor: '#evicted',
    explain({ events, runs, conviction }) {
      const at = events.findIndex(event => event.event === 'deliver' && event.evicted);
      const late = runs.find(run => run.at === at);
      if (late === undefined) return undefined;
      return {
        because: `the record of the message was gone when ${nameOf(late)} came, and nothing else ${conviction.verdict === 'double' ? 'refused it' : 'told what had been done'}`,
        fix: 'keep records for longer than a copy can take to come, replays included; where that cannot be promised, let the effect itself refuse what is old: a version or a sequence number per entity, compared in the same statement',
        evidence: [at],
      };
    },
  },
];
