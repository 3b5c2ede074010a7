import type { Deviation, VerdictName } from './oracle.ts';
import type { Plan } from './plan.ts';
import type { Bounds } from './tape.ts';
import type { Trace } from './trace.ts';

/** A handler that did something wrong, with the shortest story of it. */
export interface Conviction {
  readonly verdict: VerdictName;
  readonly deviation: Deviation;
  readonly trace: Trace;
  /** Plays it again: `--replay`. */
  readonly token: string;
  /** How much trouble it took: crashes, cut connections, copies, switches. */
  readonly cost: number;
  /** The event after which nothing could save it. */
  readonly sealedAt: number | undefined;
  readonly executions: number;
  readonly ms: number;
}

export interface Report {
  /** `once`: sound within the bounds. `unknown`: nothing was found, and that says little; `why` says why. */
  readonly verdict: 'once' | 'convicted' | 'unknown';
  readonly why: string | undefined;
  readonly handler: string;
  /** The command line that it came from, as words for a shell; what plays it again is added to them. */
  readonly command?: string;
  readonly convictions: readonly Conviction[];
  readonly executions: number;
  /** Of these, those with trouble at moments that chance chose, when the time for the search was over. */
  readonly walks: number;
  readonly ms: number;
  /** Everything with at most so much trouble was tried. */
  readonly completeTo: number;
  readonly bounds: Bounds;
  /** The handler reads the clock of its process: then executions with one clock ahead were among them. */
  readonly readsClock: boolean;
  readonly plan: Plan;
  /** Columns that were not compared because they differ from run to run. */
  readonly masked: readonly string[];
  /** Throws with the story unless the verdict is `once`. */
  assertOnce(): void;
}
