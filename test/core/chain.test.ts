import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Chain, Link } from '../../src/core/chain.ts';
import { onAbort } from '../../src/core/on-abort.ts';

class Item extends Link {
  readonly n: number;

  constructor(n: number) {
    super();
    this.n = n;
  }
}

test('keeps the order of arrival, whatever is taken out from wherever', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom('push', 'remove'), fc.nat(9))), steps => {
      const items = Array.from({ length: 10 }, (_, n) => new Item(n));
      const chain = new Chain<Item>();
      const model = new Set<number>();
      for (const [step, n] of steps) {
        chain.remove(items[n]!);
        model.delete(n);
        if (step === 'remove') continue;
        chain.push(items[n]!);
        model.add(n);
      }
      expect([...chain].map(item => item.n)).toEqual([...model]);
      expect(chain.first?.n).toBe([...model][0]);
    }),
  );
});

test('what is taken out in its turn does not end the round, and keeps no neighbour alive', () => {
  const items = [0, 1, 2].map(n => new Item(n));
  const chain = new Chain<Item>();
  for (const item of items) chain.push(item);
  const seen: number[] = [];
  for (const item of chain) {
    seen.push(item.n);
    chain.remove(item);
  }
  expect(seen).toEqual([0, 1, 2]);
  expect(chain.first).toBeUndefined();
  expect(items.map(({ before, after }) => [before, after])).toEqual(items.map(() => [undefined, undefined]));
});

test('an item of another chain stays there', () => {
  const [one, other] = [new Chain<Item>(), new Chain<Item>()];
  const item = new Item(1);
  one.push(item);
  other.remove(item);
  expect(one.first).toBe(item);
});

test('a listener that another has taken off is not called', () => {
  const controller = new AbortController();
  const called: string[] = [];
  const offs: (() => void)[] = [];
  onAbort(controller.signal, () => {
    called.push('first');
    offs[0]!();
  });
  offs.push(onAbort(controller.signal, () => called.push('second')));
  onAbort(controller.signal, () => called.push('third'));
  controller.abort();
  expect(called).toEqual(['first', 'third']);
});
