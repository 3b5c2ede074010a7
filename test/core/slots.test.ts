import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Slots } from '../../src/core/slots.ts';

describe('a bounded number of places', () => {
  test('never more than there are, all of them used, and whoever waits longest comes next', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 5 }), fc.array(fc.nat(3), { maxLength: 30 }), async (size, turns) => {
        const slots = new Slots(size);
        let held = 0;
        const started: number[] = [];
        const work = turns.map(async (ticks, i) => {
          await slots.take();
          held++;
          started.push(i);
          expect(held).toBeLessThanOrEqual(size);
          for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
          held--;
          slots.give();
        });
        await Promise.all(work);
        expect(started).toEqual(turns.map((_, i) => i));
        // None was lost on the way: all of them can be taken at once.
        for (let i = 0; i < size; i++) await slots.take();
      }),
    );
  });

  test('a place that is given goes to the one who waits, not to one who comes later', async () => {
    const slots = new Slots(1);
    const order: string[] = [];
    await slots.take();
    const waiting = slots.take().then(() => order.push('first'));
    slots.give();
    const late = slots.take().then(() => order.push('second'));
    await waiting;
    expect(order).toEqual(['first']);
    slots.give();
    await late;
    expect(order).toEqual(['first', 'second']);
  });

  test('whoever stops waiting leaves the line, and its place goes to the next', async () => {
    const slots = new Slots(1);
    await slots.take();
    const leaving = new AbortController();
    const first = slots.take(leaving.signal);
    const second = slots.take();
    leaving.abort();
    expect(await first).toBe(false);
    slots.give();
    expect(await second).toBe(true);
    expect(await slots.take(leaving.signal)).toBe(false);
  });
});
