import type { Random } from '../../support/random.ts';

/** The two kinds of store that the kill runs use. */
export type Kind = 'sqlite' | 'postgres';

/** How the wallet's handler is written. `overlap` is `handle` with `overlap: 'by-key'`. */
export type Style = 'handle' | 'overlap' | 'handleBatch';

/**
 * Every place of the path where a process can die. Those `during` a step are the child's own: between the two writes of
 * a handler, and while COMMIT is on its way. The others are the library's points by their names.
 */
export const PLACES = [
  'receive after',
  'identify after',
  'claim before',
  'claim after',
  'handle before',
  'handle during',
  'handle after',
  'record before',
  'record during',
  'record after',
  'settle before',
  'settle after',
] as const;

export type Place = (typeof PLACES)[number];

/** One death: the process kills itself when it comes to `place` for the `nth` time. */
export interface Kill {
  readonly place: Place;
  readonly nth: number;
}

/** What one child process is told. */
export interface Job {
  readonly kind: Kind;
  /** A file, or the URL of a database. */
  readonly target: string;
  readonly style: Style;
  readonly kill: Kill | undefined;
}

/** One run of the long story: some processes, a stream of messages, and deaths. */
export interface Campaign {
  readonly kind: Kind;
  readonly style: Style;
  /** Processes that consume at the same time. */
  readonly processes: 1 | 2;
  readonly kills: readonly Kill[];
}

/** All campaigns of one kind of store. `count` deaths are dealt out so that every place has its turn as often as any. */
export function campaigns(kind: Kind, count: number, random: Random): readonly Campaign[] {
  const styles: readonly Style[] =
    kind === 'postgres' ? ['handle', 'overlap', 'handleBatch'] : ['handle', 'handleBatch'];
  const kills: Kill[] = [];
  while (kills.length < count) {
    for (const place of random.shuffled(PLACES)) {
      // Half of them come early, with the work of the one before still open; the others let some work get done.
      const nth = 1 + (random.chance(0.5) ? random.below(2) : random.below(20));
      if (kills.length < count) kills.push({ place, nth });
    }
  }
  const shapes = styles.flatMap(style => ([1, 2] as const).map(processes => ({ kind, style, processes })));
  return shapes.map((shape, i) => ({ ...shape, kills: kills.filter((_, k) => k % shapes.length === i) }));
}
