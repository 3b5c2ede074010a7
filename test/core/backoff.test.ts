import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { backoffMs } from '../../src/core/backoff.ts';

const bounds = fc.tuple(fc.nat(10_000), fc.nat(1_000_000)).map(([minMs, more]) => ({ minMs, maxMs: minMs + more }));
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('back-off', () => {
  test('is never longer than maxMs, and at least half of minMs', () => {
    fc.assert(
      fc.property(fc.integer({ min: -5, max: 1_000_000 }), bounds, random, (n, between, x) => {
        const ms = backoffMs(n, between, x);
        expect(ms).toBeLessThanOrEqual(between.maxMs);
        expect(ms).toBeGreaterThanOrEqual(between.minMs / 2);
      }),
    );
  });

  test('never shrinks from one failure to the next, whatever chance says', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), bounds, random, (n, between, x) => {
        expect(backoffMs(n + 1, between, x)).toBeGreaterThanOrEqual(backoffMs(n, between, x));
      }),
    );
  });

  test('doubles from minMs to maxMs, of which the last half is chance', () => {
    const between = { minMs: 100, maxMs: 1_000 };
    expect([1, 2, 3, 4, 5, 50].map(n => backoffMs(n, between, 0))).toEqual([50, 100, 200, 400, 500, 500]);
    expect([1, 2, 3, 4, 5, 50].map(n => backoffMs(n, between, 0.5))).toEqual([75, 150, 300, 600, 750, 750]);
  });
});
