import { expect, test } from 'vitest';
import { Gathered } from '../../src/stores/gathered.ts';

test('what is asked in one turn is one call, and each caller gets its own answers in order', async () => {
  const calls: number[][] = [];
  const gathered = new Gathered<number, number>(async items => {
    calls.push([...items]);
    return items.map(n => n * 10);
  });
  const first = Promise.all([gathered.ask([1, 2]), gathered.ask([]), gathered.ask([3])]);
  expect(await first).toEqual([[10, 20], [], [30]]);
  expect(await gathered.ask([4])).toEqual([40]);
  expect(calls).toEqual([[1, 2, 3], [4]]);
});

test('a call does not grow beyond 500 by it, and nobody is split', async () => {
  const sizes: number[] = [];
  const gathered = new Gathered<number, number>(async items => {
    sizes.push(items.length);
    return items;
  });
  const asked = [300, 300, 100, 700, 1].map(n => Array.from({ length: n }, (_, i) => i));
  expect(await Promise.all(asked.map(items => gathered.ask(items)))).toEqual(asked);
  expect(sizes).toEqual([300, 400, 700, 1]);
});

test('a call that fails fails for those who came along, and for nobody else', async () => {
  let fails = true;
  const gathered = new Gathered<number, number>(async items => {
    if (fails) throw new Error('away');
    return items;
  });
  const both = await Promise.allSettled([gathered.ask([1]), gathered.ask([2])]);
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  fails = false;
  expect(await gathered.ask([3])).toEqual([3]);
});
