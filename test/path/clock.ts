import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../src/index.ts';

/** A clock that only tests move: by hand, and by sleeping, which takes no time. */
export interface ManualClock extends Clock {
  /** For `memoryStore({ clock })`. */
  now(): number;
  advance(ms: number): void;
  /** How long the sleeps so far were to last, in milliseconds. */
  readonly slept: readonly number[];
}

export function manualClock(): ManualClock {
  let ms = 1_000_000;
  const slept: number[] = [];
  return {
    slept,
    monotonicMs: () => ms,
    now: () => ms,
    random: () => 0.5,
    advance(by) {
      ms += by;
    },
    async sleep(by, signal) {
      if (signal?.aborted) return;
      slept.push(by);
      ms += by;
      // Lets everybody else go on, or two who wait for each other would sleep for ever.
      await nextTurn();
    },
  };
}
