import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { WorkList } from '../../src/core/work-list.ts';

interface Outcome {
  readonly done: readonly number[];
  readonly alone: readonly number[];
  readonly takes: number;
  readonly claimed: number;
}

/** Works a list off as the path does: a group with a bad item fails whole, and a bad item alone is set aside. */
function workOff(n: number, isBad: (item: number) => boolean, blame: (group: readonly number[]) => boolean): Outcome {
  const work = new WorkList(Array.from({ length: n }, (_, i) => i));
  const done: number[] = [];
  const alone: number[] = [];
  let takes = 0;
  let claimed = 0;
  for (let group = work.take(); group !== undefined; group = work.take()) {
    takes++;
    claimed += group.length;
    if (takes > 100 * (n + 1)) throw new Error('no progress');
    const bad = group.findIndex(isBad);
    if (bad === -1) {
      done.push(...group);
      work.succeeded();
    } else if (group.length === 1) {
      done.push(...group);
      alone.push(...group);
    } else if (blame(group)) work.isolate(group, bad);
    else work.halve(group);
  }
  return { done, alone, takes, claimed };
}

const blames = fc.func<[readonly number[]], boolean>(fc.boolean());
const badness = fc.integer({ min: 0, max: 60 }).chain(n =>
  fc.record({
    n: fc.constant(n),
    bad: fc.oneof(
      fc.constant(new Set(Array.from({ length: n }, (_, i) => i))),
      fc.uniqueArray(fc.nat(60)).map(list => new Set(list)),
    ),
  }),
);

describe('the groups of a batch that are still to be tried', () => {
  test('nothing is lost or doubled, order is kept, and exactly the bad ones end alone', () => {
    fc.assert(
      fc.property(badness, blames, ({ n, bad }, blame) => {
        const { done, alone } = workOff(n, item => bad.has(item), blame);
        expect(done).toEqual(Array.from({ length: n }, (_, i) => i));
        expect(alone).toEqual(done.filter(item => bad.has(item)));
      }),
    );
  });

  test.each([
    ['the culprit is known', true],
    ['nobody knows the culprit', false],
  ])('wherever one bad item stands among 512, it costs at most 3 × 9 transactions when %s', (_, known) => {
    for (let bad = 0; bad < 512; bad++) {
      const { takes } = workOff(
        512,
        item => item === bad,
        () => known,
      );
      expect(takes).toBeLessThanOrEqual(27);
    }
  });

  test.each([
    ['the culprit is known', true],
    ['nobody knows the culprit', false],
  ])('when all are bad, the work grows with their number and not with its square (%s)', (_, known) => {
    for (const n of [64, 500, 2_000]) {
      const { alone, takes, claimed } = workOff(
        n,
        () => true,
        () => known,
      );
      expect(alone.length).toBe(n);
      expect(takes).toBeLessThanOrEqual(2 * n);
      expect(claimed).toBeLessThanOrEqual(4 * n + n);
    }
  });

  test('after a failure groups start small and double while they succeed', () => {
    const work = new WorkList(Array.from({ length: 100 }, (_, i) => i));
    work.isolate(work.take()!, 0);
    const sizes: number[] = [];
    for (let group = work.take(); group !== undefined; group = work.take()) {
      sizes.push(group.length);
      work.succeeded();
    }
    expect(sizes).toEqual([1, 4, 8, 16, 32, 39]);
  });

  test('groups put in front come first, empty ones not at all, and drain takes what is left in order', () => {
    const work = new WorkList([4, 5]);
    work.pushFront([1, 2], [], [3]);
    expect(work.take()).toEqual([1, 2]);
    expect(work.drain()).toEqual([3, 4, 5]);
    expect(work.take()).toBeUndefined();
    expect(new WorkList([]).take()).toBeUndefined();
  });
});
