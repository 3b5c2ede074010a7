import { nameOf } from '../reading.ts';
import type { Rule } from './rule.ts';

/** What one process has written of its time another one has compared with its own. */
export const CLOCK_RULES: readonly Rule[] = [
  {
    anchor: '#clocks',
    explain({ events, runs, deeds }) {
      const at = events.findIndex(event => event.event === 'deliver' && event.ahead);
      const ahead = runs.find(run => run.at === at);
      if (ahead === undefined) return undefined;
      const first = deeds.find(deed => deed.run === ahead && deed.statement.kind !== 'ack');
      return {
        because: `the clock of ${nameOf(ahead)} is an hour ahead, and the handler compares the time of its own process with one that another process has read: what had not run out had run out for ${nameOf(ahead)}`,
        fix: "let one clock decide, the database's (now()); where it is about a lease, let the effect's own write check its token, too",
        evidence: [at, ...(first === undefined ? [] : [first.at])],
      };
    },
  },
];
