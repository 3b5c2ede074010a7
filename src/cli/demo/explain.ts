import { type Conviction, render, verify } from '../../verify/index.ts';

const MODULE = new URL(`services/on-payment${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url).href;
const EXPORTS: Readonly<Record<string, string>> = {
  naive: 'naive',
  'check-then-act': 'checkThenAct',
  'mark-first': 'markFirst',
};

/** What the verifier says of a service. */
export interface Explanation {
  readonly service: string;
  readonly verdict: Conviction['verdict'] | 'once' | 'unknown';
  readonly executions: number;
  /** Why, in a sentence. */
  readonly because: string;
}

/** Has the verifier look at the hand-written ones of these services, one after the other. */
export async function explain(services: readonly string[]): Promise<readonly Explanation[]> {
  const all: Explanation[] = [];
  for (const service of services) {
    const name = EXPORTS[service];
    if (name === undefined) continue;
    const report = await verify({ handler: `${MODULE}#${name}` });
    const { convictions } = JSON.parse(render(report, 'json')) as {
      readonly convictions: readonly { readonly because: string; readonly executions: number }[];
    };
    all.push({
      service,
      verdict: report.convictions[0]?.verdict ?? (report.verdict === 'convicted' ? 'unknown' : report.verdict),
      executions: convictions[0]?.executions ?? report.executions,
      because: convictions[0]?.because ?? report.why ?? 'nothing was found',
    });
  }
  return all;
}
