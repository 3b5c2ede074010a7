import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { PARTITIONS, scheduleFor } from '../../src/cli/demo/schedule.ts';

const anySchedule = fc
  .tuple(fc.nat(), fc.integer({ min: 2, max: 40 }))
  .map(([seed, kills]) => scheduleFor(seed, kills));

test('the same seed is the same schedule, another seed another one', () => {
  expect(scheduleFor(1, 10)).toEqual(scheduleFor(1, 10));
  expect(scheduleFor(1, 10)).not.toEqual(scheduleFor(2, 10));
});

test('every schedule kills where mark-first loses, where check-then-act doubles, and doubles a payment for naive', () =>
  fc.assert(
    fc.property(anySchedule, ({ rounds }) => {
      const places = rounds.map(({ fuse }) => `${fuse.step} ${fuse.edge}`);
      expect(places).toContain('claim after');
      expect(places).toContain('handle after');
      expect(rounds[0]?.resent).toHaveLength(1);
    }),
  ));

test('every round ends with a kill: a fuse is shorter than what one of two workers gets at least', () =>
  fc.assert(
    fc.property(anySchedule, ({ rounds }) => {
      for (const { fuse, payments } of rounds) expect(fuse.messages).toBeLessThanOrEqual(payments.length / 2);
      for (const { payments } of rounds) expect(payments.length % PARTITIONS).toBe(0);
    }),
  ));

test('only what was sent before is sent or handed out again', () =>
  fc.assert(
    fc.property(anySchedule, ({ rounds, payments }) => {
      const sent = new Set<string>();
      for (const { payments: fresh, resent, redelivered } of rounds) {
        expect(redelivered.filter(id => !sent.has(id))).toEqual([]);
        for (const { id } of fresh) sent.add(id);
        expect(resent.filter(id => !sent.has(id))).toEqual([]);
      }
      expect(sent.size).toBe(payments.length);
    }),
  ));
