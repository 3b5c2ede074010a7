import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { byKey, planRuns } from '../../src/core/runs.ts';

interface Item {
  readonly at: number;
  readonly route: string;
  readonly key: string | undefined;
}

const items = fc
  .array(fc.record({ route: fc.constantFrom('a', 'b', 'c'), key: fc.constantFrom(undefined, 'k', 'l', 'm', '') }), {
    maxLength: 40,
  })
  .map(list => list.map((item, at): Item => ({ ...item, at })));

const from = (text: string): Item[] =>
  text.split(' ').map((word, at) => ({ at, route: word[0]!, key: word[1] === '-' ? undefined : word[1] }));
const shape = (list: readonly Item[]) =>
  planRuns(list).map(run => `${run.route}:${run.items.map(i => i.at).join(',')}`);

describe('runs of one route', () => {
  test('every message is in exactly one run, which has its route', () => {
    fc.assert(
      fc.property(items, list => {
        const runs = planRuns(list);
        expect(runs.flatMap(run => run.items).sort((x, y) => x.at - y.at)).toEqual(list);
        for (const run of runs) expect(run.items.every(item => item.route === run.route)).toBe(true);
      }),
    );
  });

  test('no message overtakes an earlier one of its key, nor one without a key another without', () => {
    fc.assert(
      fc.property(items, list => {
        const handled = planRuns(list).flatMap(run => run.items);
        for (const key of new Set(list.map(item => item.key))) {
          const order = handled.filter(item => item.key === key).map(item => item.at);
          expect(order).toEqual(order.toSorted((x, y) => x - y));
        }
      }),
    );
  });

  test('one route, or no key twice, needs no more runs than there are routes', () => {
    fc.assert(
      fc.property(items, list => {
        expect(planRuns(list.map(item => ({ ...item, route: 'a' }))).length).toBe(list.length === 0 ? 0 : 1);
        const distinct = list.map(item => ({ ...item, key: String(item.at) }));
        expect(planRuns(distinct).length).toBe(new Set(list.map(item => item.route)).size);
      }),
    );
  });

  test.each([
    ['ak bl ak bl', ['a:0,2', 'b:1,3']],
    ['ak bk ak', ['a:0', 'b:1', 'a:2']],
    ['ak bk al', ['a:0,2', 'b:1']],
    ['a- b- a-', ['a:0', 'b:1', 'a:2']],
    ['ak bl cm bk al', ['a:0', 'b:1,3', 'c:2', 'a:4']],
  ])('%s', (text, runs) => {
    expect(shape(from(text))).toEqual(runs);
  });
});

describe('chains of one key', () => {
  test('every item once, one chain a key in order, and one for each item without a key', () => {
    fc.assert(
      fc.property(items, list => {
        const chains = byKey(list);
        expect(chains.flat().sort((x, y) => x.at - y.at)).toEqual(list);
        for (const chain of chains) {
          expect(new Set(chain.map(item => item.key)).size).toBe(1);
          if (chain[0]!.key === undefined) expect(chain.length).toBe(1);
          expect(chain.map(item => item.at)).toEqual(chain.map(item => item.at).toSorted((x, y) => x - y));
        }
        const keyed = list.filter(item => item.key !== undefined);
        expect(chains.length).toBe(new Set(keyed.map(item => item.key)).size + list.length - keyed.length);
      }),
    );
  });
});
