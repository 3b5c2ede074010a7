import fc from 'fast-check';
import { expect, test } from 'vitest';
import { seeded } from '../../src/core/random.ts';
import { type Bounds, costOf, type Option, Player } from '../../src/verify/tape.ts';
import { walk } from '../../src/verify/walks.ts';

const bounds = (total: number): Bounds => ({
  total,
  duplicates: 9,
  crashes: 9,
  faults: 9,
  inFlight: 9,
  preemptions: 9,
  clocks: 9,
  evictions: 9,
});

/** A made-up program of so many steps, at each of which it may be cut: the steps at which it was. */
function program(player: Player, steps: number): readonly number[] {
  const cuts: number[] = [];
  for (let step = 0; step < steps; step++) {
    const options: Option[] = [{ label: 'on', cost: {} }];
    if (player.affords({ faults: 1 })) options.push({ label: 'cut', cost: { faults: 1 } });
    if (player.choose(options) === 1) cuts.push(step);
  }
  return cuts;
}

test('chance finds what needs trouble at three moments late in the execution, and tells nothing beside it', async () => {
  const wanted = [11, 13, 17];
  let walks = 0;
  let found: { readonly tape: readonly number[]; readonly failure: readonly number[] } | undefined;
  await walk<readonly number[]>({
    bounds: bounds(6),
    play: async player => {
      const cuts = program(player, 20);
      return { failure: wanted.every(step => cuts.includes(step)) ? cuts : undefined };
    },
    over: () => walks >= 5_000,
    progress: n => {
      walks = n;
    },
    failed: async one => {
      found = one;
      return true;
    },
    random: seeded(7),
    decisions: () => 20,
    same: () => true,
  });
  // With one chance in two at each step it would never have come so far with trouble to spend: 2 ** -11.
  expect(walks).toBeLessThan(500);
  expect(found!.failure).toEqual(wanted);
  expect(program(new Player(found!.tape, bounds(6)), 20)).toEqual(wanted);
});

test('a walk spends what the bounds allow and no more', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.nat(),
      fc.integer({ min: 0, max: 5 }),
      fc.integer({ min: 1, max: 30 }),
      async (seed, total, steps) => {
        let left = 20;
        await walk<never>({
          bounds: bounds(total),
          play: async player => {
            program(player, steps);
            expect(costOf(player.spent)).toBeLessThanOrEqual(total);
            return { failure: undefined };
          },
          over: () => left-- === 0,
          failed: async () => true,
          random: seeded(seed),
          decisions: () => steps,
          same: () => true,
        });
      },
    ),
  );
});

test('the same seed walks the same ways', async () => {
  const ways = async () => {
    const seen: string[] = [];
    await walk<never>({
      bounds: bounds(3),
      play: async player => {
        seen.push(String(program(player, 12)));
        return { failure: undefined };
      },
      over: () => seen.length === 30,
      failed: async () => true,
      random: seeded(3),
      decisions: () => 12,
      same: () => true,
    });
    return seen;
  };
  const first = await ways();
  expect(await ways()).toEqual(first);
  expect(new Set(first).size).toBeGreaterThan(10);
});
