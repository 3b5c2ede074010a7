import { expect, test } from 'vitest';
import { CONTESTANTS, judge } from '../../src/cli/demo/judge.ts';
import type { Outcome } from '../../src/cli/demo/trial.ts';

const right: Omit<Outcome, 'service'> = {
  expectedCents: 10_000,
  actualCents: 10_000,
  wrongBalances: 0,
  doubled: 0,
  lost: 0,
  kills: 3,
  deliveries: 20,
};
const doubled = { ...right, actualCents: 10_500, wrongBalances: 1, doubled: 1 };
const lost = { ...right, actualCents: 9_500, wrongBalances: 1, lost: 1 };

function outcomes(change: Readonly<Record<string, Partial<Outcome>>> = {}): readonly Outcome[] {
  const usual = { naive: doubled, 'check-then-act': doubled, 'mark-first': lost, nevertwice: right };
  return Object.entries(usual).map(([service, outcome]) => ({ service, ...outcome, ...change[service] }));
}

test('proved when nevertwice alone is right', () => {
  const { proved, rows } = judge(outcomes(), CONTESTANTS);
  expect(proved).toBe(true);
  expect(rows.map(({ outcome, isRight }) => [outcome.service, isRight])).toEqual([
    ['naive', false],
    ['check-then-act', false],
    ['mark-first', false],
    ['nevertwice', true],
  ]);
});

test.each<[string, Partial<Outcome>]>([
  ['off by a cent', { actualCents: 10_001, wrongBalances: 1 }],
  ['a total that is right because what one has too much another lacks', { wrongBalances: 2 }],
  ['doubled', { doubled: 1 }],
  ['lost', { lost: 1 }],
])('not proved when nevertwice is wrong: %s', (_, change) => {
  const { proved, rows } = judge(outcomes({ nevertwice: change }), CONTESTANTS);
  expect(proved).toBe(false);
  expect(rows.filter(row => !row.asExpected).map(row => row.outcome.service)).toEqual(['nevertwice']);
});

test.each(['naive', 'check-then-act', 'mark-first'])('not proved when %s comes out right', service => {
  const { proved, rows } = judge(outcomes({ [service]: right }), CONTESTANTS);
  expect(proved).toBe(false);
  expect(rows.filter(row => !row.asExpected).map(row => row.outcome.service)).toEqual([service]);
});
