import type { Outcome } from './trial.ts';

/** A service of the demo, and what it must come to. */
export interface Contestant {
  readonly service: string;
  /** How it works, in a few words. */
  readonly how: string;
  readonly mustBeRight: boolean;
}

export const CONTESTANTS: readonly Contestant[] = [
  { service: 'naive', how: 'credits whatever is delivered', mustBeRight: false },
  { service: 'check-then-act', how: 'looks the id up, credits, then records the id', mustBeRight: false },
  { service: 'mark-first', how: 'records the id, then credits', mustBeRight: false },
  { service: 'nevertwice', how: 'claims the id in the transaction that credits', mustBeRight: true },
];

export interface Judgement {
  /** In the order of the contestants. */
  readonly rows: readonly { readonly outcome: Outcome; readonly isRight: boolean; readonly asExpected: boolean }[];
  /** True when nevertwice was right to the cent and every other one was not. */
  readonly proved: boolean;
}

/** Whether the demo has proved what it should. */
export function judge(outcomes: readonly Outcome[], contestants: readonly Contestant[]): Judgement {
  const rows = contestants.map(({ service, mustBeRight }) => {
    const outcome = outcomes.find(one => one.service === service);
    if (outcome === undefined) throw new Error(`there is no outcome of ${service}`);
    const isRight = isExact(outcome);
    return { outcome, isRight, asExpected: isRight === mustBeRight };
  });
  return { rows, proved: rows.every(row => row.asExpected) };
}

function isExact({ expectedCents, actualCents, wrongBalances, doubled, lost }: Outcome): boolean {
  return actualCents === expectedCents && wrongBalances === 0 && doubled === 0 && lost === 0;
}
