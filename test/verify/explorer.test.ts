import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { search } from '../../src/verify/explorer.ts';
import { type Bounds, type Cost, Diverged, type Option, Player, tapeOf, tokenOf } from '../../src/verify/tape.ts';

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

/** A made-up program: at each of its steps it may go on, be cut, or crash, which ends it. */
function program(player: Player, steps: number): string {
  let story = '';
  for (let step = 0; step < steps; step++) {
    const options: Option[] = [{ label: 'on', cost: {} }];
    const add = (label: string, cost: Cost) => player.affords(cost) && options.push({ label, cost });
    add('cut', { faults: 1 });
    add('crash', { crashes: 1 });
    const { label } = options[player.choose(options)]!;
    story += label[0] === 'o' ? '.' : label === 'cut' ? 'c' : 'X';
    if (label === 'crash') break;
  }
  return story;
}

async function stories(steps: number, total: number): Promise<string[]> {
  const found: string[] = [];
  const searched = await search<never>({
    bounds: bounds(total),
    play: async player => {
      found.push(program(player, steps));
      return { failure: undefined };
    },
    over: () => false,
    failed: async () => true,
  });
  expect(searched).toMatchObject({ complete: true, executions: found.length, diverged: undefined });
  return found;
}

/** All of them, counted out by hand. */
function allStories(steps: number, left: number): string[] {
  if (steps === 0) return [''];
  const on = allStories(steps - 1, left).map(rest => `.${rest}`);
  if (left === 0) return on;
  return [...on, ...allStories(steps - 1, left - 1).map(rest => `c${rest}`), 'X'];
}

describe('the search', () => {
  test('plays every execution within the bounds exactly once', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 4 }), async (steps, total) => {
        expect((await stories(steps, total)).sort()).toEqual(allStories(steps, total).sort());
      }),
    );
  });

  test('goes from the cheapest to the dearest, so that the first failure has the shortest story', async () => {
    const costs = (await stories(4, 3)).map(story => story.replaceAll('.', '').length);
    expect(costs).toEqual([...costs].sort((x, y) => x - y));
  });

  test('ends at the first failure, and says up to which cost it had tried everything', async () => {
    const played: string[] = [];
    const searched = await search<string>({
      bounds: bounds(3),
      play: async player => {
        const story = program(player, 3);
        played.push(story);
        return { failure: story.replaceAll('.', '') === 'cX' ? story : undefined };
      },
      over: () => false,
      failed: async ({ failure }) => failure !== '',
    });
    expect(played.at(-1)).toBe('cX');
    expect(searched).toMatchObject({ complete: false, completeTo: 1, executions: played.length });
  });

  test('a budget that is over leaves it incomplete', async () => {
    let played = 0;
    const searched = await search<never>({
      bounds: bounds(2),
      play: async player => {
        program(player, 3);
        played++;
        return { failure: undefined };
      },
      over: () => played >= 5,
      failed: async () => true,
    });
    expect(searched).toMatchObject({ complete: false, executions: 5, completeTo: 0 });
  });

  test('an execution that does not come where it had come before is reported, and never a pass', async () => {
    let plays = 0;
    const searched = await search<never>({
      bounds: bounds(1),
      play: async player => {
        plays++;
        const options: Option[] = [{ label: plays > 1 ? 'other' : 'on', cost: {} }];
        if (player.affords({ faults: 1 })) options.push({ label: 'cut', cost: { faults: 1 } });
        player.choose(options);
        return { failure: undefined };
      },
      over: () => false,
      failed: async () => true,
    });
    expect(searched.complete).toBe(false);
    expect(searched.diverged).toBeInstanceOf(Diverged);
    expect(searched.diverged?.message).toContain('decision 1');
  });
});

describe('the search on several stages', () => {
  /** Ends after so many turns of the event loop: which one is done first is up to them. */
  async function turns(n: number): Promise<void> {
    for (let i = 0; i < n; i++) await new Promise(resolve => setImmediate(resolve));
  }

  test('finds the same, in the same order and after as many executions, whichever is done first; one at a time on each', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1 }),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 0, max: 7 }),
        fc.boolean(),
        async (delays, stages, wanted, goesOn) => {
          const run = async (count: number) => {
            const found: (readonly [number, string])[] = [];
            const busy = new Set<number>();
            let begun = 0;
            const searched = await search<string>({
              bounds: bounds(2),
              stages: () => count,
              play: async (player, stage) => {
                expect(busy.has(stage)).toBe(false);
                expect(stage).toBeLessThan(count);
                busy.add(stage);
                await turns(delays[begun++ % delays.length]!);
                const story = program(player, 4);
                busy.delete(stage);
                return { failure: story.length === wanted % 5 || story.indexOf('c') === wanted ? story : undefined };
              },
              over: () => false,
              failed: async ({ failure, executions }) => {
                expect(busy.size).toBe(0);
                found.push([executions, failure]);
                return !goesOn;
              },
            });
            expect(busy.size).toBe(0);
            return { searched, found };
          };
          expect(await run(stages)).toEqual(await run(1));
        },
      ),
      { numRuns: 60 },
    );
  });

  test('what goes wrong on one ends it, when nothing is played any more', async () => {
    let playing = 0;
    const over = search<never>({
      bounds: bounds(2),
      stages: () => 3,
      play: async player => {
        playing++;
        await turns(3);
        const story = program(player, 4);
        playing--;
        if (story === '.X') throw new RangeError('no stage');
        return { failure: undefined };
      },
      over: () => false,
      failed: async () => true,
    });
    await expect(over).rejects.toThrow(RangeError);
    expect(playing).toBe(0);
  });
});

test('a token is its tape again', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 127 })), { maxLength: 400 }), tape => {
      expect(tapeOf(tokenOf(tape, '0123abcd'))).toEqual({ plan: '0123abcd', tape });
    }),
  );
});

test.each(['', 'x', '0123abcd', '0123abc-AA', '0123abcd-??'])('%j is no token', text => {
  expect(tapeOf(text)).toBeUndefined();
});

test('what cannot be afforded any more is not offered', () => {
  const player = new Player([1], { ...bounds(9), crashes: 1 });
  player.choose([
    { label: 'on', cost: {} },
    { label: 'crash', cost: { crashes: 1 } },
  ]);
  expect(player.affords({ crashes: 1 })).toBe(false);
  expect(player.affords({ faults: 1 })).toBe(true);
});
