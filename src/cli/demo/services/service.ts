import type { Step } from '../../../ports/points.ts';
import type { Source } from '../../../ports/source.ts';

/** What a wallet service gets to work with. Each is one file beside this one, written as people write it. */
export interface Surroundings {
  readonly source: Source;
  /** Aborts when everything is done. */
  readonly stopped: AbortSignal;
  /** The service's own SQLite file, with the wallet in it. */
  readonly file: string;
  /** To be awaited wherever a process can die between two steps. `messages` is how many have come this far; default 1. */
  reach(step: Step, edge: 'before' | 'after', messages?: number): Promise<void>;
}

/** Works until stopped, and resolves once nothing is in work any more. */
export type Service = (surroundings: Surroundings) => Promise<void>;
