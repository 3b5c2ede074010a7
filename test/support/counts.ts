/** How many times the fault runs kill: few in `npm test`, many in `npm run test:long`, or as NEVERTWICE_KILLS says. */
export const KILLS: number = Number(process.env.NEVERTWICE_KILLS ?? 20);

/** How long members join and leave at least, in milliseconds: ten of them in `npm test`, half a minute in the long run. */
export const STORM_MS: number = KILLS > 20 ? 30_000 : 0;

/** Time limit for a test that does `KILLS` rounds of at most `roundMs` each, in milliseconds; for vitest's `timeout`. */
export function timeLimit(roundMs: number): number {
  return 30_000 + KILLS * roundMs;
}
