import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BatchSize } from '../../src/batch-size.ts';

const run = (size: BatchSize, msEach: number, batches: number) => {
  const sizes: number[] = [];
  for (let i = 0; i < batches; i++) {
    size.measured(size.next, size.next * msEach);
    sizes.push(size.next);
  }
  return sizes;
};

describe('the batch size follows the handler', () => {
  test('it stays within 1 and max, and grows at most twofold a step', () => {
    const measured = fc.record({
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      ms: fc.double({ min: 0, max: 1e6, noNaN: true }),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10_000 }),
        fc.integer({ min: 1, max: 60_000 }),
        fc.array(measured),
        (max, budgetMs, steps) => {
          const size = new BatchSize({ max, budgetMs });
          for (const { share, ms } of steps) {
            const before = size.next;
            size.measured(Math.round(share * before), ms);
            expect(Number.isInteger(size.next)).toBe(true);
            expect(size.next).toBeGreaterThanOrEqual(1);
            expect(size.next).toBeLessThanOrEqual(Math.min(max, 2 * before));
          }
        },
      ),
    );
  });

  test('a fast handler gets full batches after a few steps', () => {
    expect(run(new BatchSize({ max: 500, budgetMs: 250 }), 0.05, 4)).toEqual([128, 256, 500, 500]);
  });

  test('a handler of 50 ms gets five in 250 ms, at once', () => {
    expect(run(new BatchSize({ max: 500, budgetMs: 250 }), 50, 2)).toEqual([5, 5]);
  });

  test('a handler that turned slow is believed at once, and recovers only step by step', () => {
    const size = new BatchSize({ max: 500, budgetMs: 250 });
    run(size, 0.05, 4);
    expect(run(size, 100, 1)).toEqual([2]);
    const recovery = run(size, 0.05, 12);
    expect(recovery[0]).toBeLessThanOrEqual(4);
    expect(recovery.at(-1)).toBe(500);
  });

  test.each([200, 260, 300, 2_000])(
    'a commit that takes %i ms however little it commits leaves batches large',
    fixed => {
      const size = new BatchSize({ max: 500, budgetMs: 250 });
      const sizes: number[] = [];
      for (let i = 0; i < 40; i++) {
        size.measured(size.next, fixed + size.next * 0.02);
        sizes.push(size.next);
      }
      expect(sizes.slice(-5)).toEqual([500, 500, 500, 500, 500]);
    },
  );

  test('a slow commit does not hide a handler that turned slow', () => {
    const size = new BatchSize({ max: 500, budgetMs: 250 });
    for (let i = 0; i < 30; i++) size.measured(size.next, 300 + size.next * 0.02);
    expect(size.next).toBe(500);
    for (let i = 0; i < 6; i++) size.measured(size.next, 300 + size.next * 100);
    expect(size.next).toBeLessThanOrEqual(5);
  });

  test('a batch that was not full does not make the next one larger', () => {
    const size = new BatchSize({ max: 500, budgetMs: 250 });
    size.measured(3, 0.1);
    expect(size.next).toBe(64);
    size.measured(0, 1_000);
    expect(size.next).toBe(64);
  });

  test('no handler is so slow that nothing is taken', () => {
    expect(run(new BatchSize({ max: 500, budgetMs: 250 }), 10_000, 1)).toEqual([1]);
  });
});
