/** How many times the fault runs kill: few in `npm test`, many in `npm run test:long`, or as NEVERTWICE_KILLS says. */
export const KILLS: number = Number(process.env.NEVERTWICE_KILLS ?? 20);

/** Time limit for a test that does `KILLS` rounds of at most `roundMs` each, in milliseconds; for vitest's `timeout`. */
export function timeLimit(roundMs: number): number {
  return 30_000 + KILLS * roundMs;
}
