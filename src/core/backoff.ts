export interface Backoff {
  /** Delay before the second try, in milliseconds. */
  readonly minMs: number;
  /** No delay is longer than this, in milliseconds. */
  readonly maxMs: number;
}

/**
 * The delay before try `n + 1` after `n` failed ones: doubling from `minMs` to `maxMs`, of which the last half is
 * random, so that workers which failed together do not come back together. `random` is 0 ≤ x < 1.
 */
export function backoffMs(n: number, { minMs, maxMs }: Backoff, random: number): number {
  const full = Math.min(maxMs, minMs * 2 ** Math.min(Math.max(n, 1) - 1, 30));
  return full / 2 + (full / 2) * random;
}
