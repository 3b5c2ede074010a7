import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OffsetWindow, type WindowEntry } from '../../src/core/offset-window.ts';

function windowOf(...offsets: readonly bigint[]) {
  const window = new OffsetWindow<WindowEntry>();
  return { window, entries: offsets.map(offset => added(window, offset)) };
}

function added(window: OffsetWindow<WindowEntry>, offset: bigint): WindowEntry {
  const entry = { offset, settled: false };
  window.add(entry);
  return entry;
}

test('C54: what is done behind something open is not committed; once that is settled the commit jumps over all', () => {
  const { window, entries } = windowOf(1n, 2n, 3n, 4n, 5n, 6n, 7n);
  for (const entry of entries) if (entry.offset !== 3n) window.settle(entry);
  expect(window.committable).toBe(3n);
  expect(window.open).toBe(5);
  window.settle(entries[2]!);
  expect(window.committable).toBe(8n);
  expect(window.open).toBe(0);
});

test('C56: next-to-read, compared as numbers of any size, over gaps and control records', () => {
  const { window, entries } = windowOf(8n, 9n, 10n, 100n);
  for (const entry of entries) window.settle(entry);
  expect(window.committable).toBe(101n);
  window.skipTo(104n);
  expect(window.committable).toBe(104n);
  const far = added(window, 9_007_199_254_740_993n);
  expect(window.committable).toBe(9_007_199_254_740_993n);
  window.settle(far);
  expect(window.committable).toBe(9_007_199_254_740_994n);
});

test('C58: an offset that was read before is not read again', () => {
  const { window } = windowOf(50n, 51n);
  expect([50n, 51n, 52n].map(offset => window.has(offset))).toEqual([true, true, false]);
  added(window, 52n);
  window.skipTo(10n);
  expect(window.next).toBe(53n);
});

test('nothing is committable before anything was read', () => {
  expect(new OffsetWindow<WindowEntry>().committable).toBeUndefined();
});

test('C55: in any order of settling, what is committable is the lowest open offset, and never goes back', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.bigInt({ min: 0n, max: 10_000n }), { minLength: 1, maxLength: 300 }).chain(offsets => {
        const sorted = offsets.toSorted((a, b) => (a < b ? -1 : 1));
        return fc.tuple(fc.constant(sorted), fc.shuffledSubarray(sorted));
      }),
      ([offsets, settled]) => {
        const { window, entries } = windowOf(...offsets);
        const open = new Set(offsets);
        let before = window.committable!;
        for (const offset of settled) {
          window.settle(entries[offsets.indexOf(offset)]!);
          open.delete(offset);
          const lowest = offsets.find(one => open.has(one)) ?? offsets.at(-1)! + 1n;
          expect(window.committable).toBe(lowest);
          expect(window.committable! >= before).toBe(true);
          before = window.committable!;
        }
      },
    ),
  );
});

test('memory is that of what is open, not of what has passed', () => {
  const window = new OffsetWindow<WindowEntry>();
  for (let offset = 0n; offset < 100_000n; offset++) window.settle(added(window, offset));
  expect(window.open).toBe(0);
  expect(window.committable).toBe(100_000n);
});

test('what is handed out comes in order, each once, and counts as open until it is settled', () => {
  const { window, entries } = windowOf(1n, 2n, 3n);
  expect(window.take(2)).toEqual([entries[0], entries[1]]);
  expect([window.waiting, window.open]).toEqual([1, 3]);
  window.settle(entries[0]!);
  const last = added(window, 7n);
  expect(window.take(10)).toEqual([entries[2], last]);
  expect(window.take(10)).toEqual([]);
  expect([window.waiting, window.open, window.committable]).toEqual([0, 3, 2n]);
});

test('what waits stays in order while what was settled before it is forgotten', () => {
  const window = new OffsetWindow<WindowEntry>();
  const seen: bigint[] = [];
  for (let offset = 0n; offset < 10_000n; offset++) {
    added(window, offset);
    if (offset % 3n !== 0n) continue;
    for (const entry of window.take(2)) {
      seen.push(entry.offset);
      window.settle(entry);
    }
  }
  expect(seen).toEqual(Array.from({ length: seen.length }, (_, i) => BigInt(i)));
  expect(window.committable).toBe(BigInt(seen.length));
});
