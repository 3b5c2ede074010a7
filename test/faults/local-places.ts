/** Where a process can die. Those of the effect are the child's own, the others the library's points by their names. */
export const LOCAL_PLACES = [
  'claim before',
  'claim after',
  'handle before',
  'effect before',
  'effect after',
  'handle after',
  'settle before',
  'settle after',
] as const;
export type LocalPlace = (typeof LOCAL_PLACES)[number];

export interface LocalJob {
  /** The file of the store. */
  readonly path: string;
  /** JSON lines. */
  readonly input: string;
  /** Where effects go: lines that are only ever appended, or a database that refuses a token that is not higher. */
  readonly effects: { readonly lines: string } | { readonly fenced: string };
  readonly leaseMs: number;
  /** What to do when it comes to `place` for the `nth` time. */
  readonly fault?: { readonly signal: 'SIGKILL' | 'SIGSTOP'; readonly place: LocalPlace; readonly nth: number };
}
