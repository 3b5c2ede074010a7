import { type Chain, Link } from './core/chain.ts';
import type { Slots } from './core/slots.ts';
import { mayAck } from './core/verdict.ts';
import type { Downtime } from './downtime.ts';
import type { Batch, Entry } from './entry.ts';
import type { Health } from './outage.ts';
import type { Path, Scope } from './path.ts';
import type { Attempts } from './ports/attempts.ts';
import type { Lane, Settlement } from './ports/source.ts';
import type { LanePosition } from './positions/lane-position.ts';

/** When a message that a live owner holds is handed back, it comes again after this long. */
const BUSY_DELAY_MS = 1_000;

/** A batch while it is in work. */
export class InWork extends Link {
  readonly batch: Batch;

  constructor(batch: Batch) {
    super();
    this.batch = batch;
  }
}

/** One lane while this process owns it, and what its work shares with the other lanes. */
export interface LaneRun {
  readonly path: Path;
  readonly lane: Lane;
  readonly slots: Slots;
  readonly health: Health;
  readonly downtime: Downtime;
  /** Undefined where messages that end processes are not looked for. */
  readonly attempts: Attempts | undefined;
  /** No new deliveries and no new handlers: the consumer stops, or the lane was taken away. */
  readonly stopping: AbortSignal;
  /** Running handlers are cut off. */
  readonly abort: AbortSignal;
  readonly retryLater: boolean;
  /** Undefined where ids alone tell copies. */
  readonly position: LanePosition | undefined;
  readonly readAhead: boolean;
  /** Holds each batch while it is in work, so that a stop can say what it abandoned. */
  readonly inWork: Chain<InWork>;
  /** Told of a batch that a stop or a revocation took out of an outage: nobody has decided about the rest of it. */
  leftWaiting(batch: Batch): void;
}

export function scopeOf({ path, lane, stopping, abort, retryLater, position }: LaneRun): Scope {
  // A position says that everything before it is done.
  const later = retryLater && position === undefined;
  // What is handed back comes after what stands behind it now, of its key too.
  const inOrder = path.policy.deadLetter === 'key';
  return {
    lane: lane.id,
    position,
    stopping,
    abort,
    attempts: path.policy.attempts,
    // A source that cannot take one delivery back has its lane wait: going on would leave it behind.
    busyWaitMs: later && !inOrder ? path.policy.busyWaitMs : Number.POSITIVE_INFINITY,
    canRetryLater: entry =>
      later && !(inOrder && entry.key !== undefined) && entry.delivery.attempt < path.policy.deliveries,
  };
}

/** What the source is told of a delivery; nothing when it is undecided, which leaves it with the broker. */
export function settlementOf({ delivery, verdict }: Entry): Settlement | undefined {
  if (verdict !== undefined && mayAck(verdict)) return { delivery, settle: 'ack', verdict: verdict.verdict };
  if (verdict?.verdict === 'retry-later') return { delivery, settle: 'retry-later', delayMs: verdict.delayMs };
  if (verdict?.verdict === 'busy') return { delivery, settle: 'retry-later', delayMs: BUSY_DELAY_MS };
  return undefined;
}
