import type { Delivery } from './delivery.ts';
import type { LaneLog } from './log.ts';
import type { Positions } from './store.ts';

/** What a source can and cannot do. The same object feeds the suite's skips, refusals at start-up and the docs. */
export interface SourceCapabilities {
  /** True when a single delivery can be handed back and comes again later. Kafka cannot: there the lane waits. */
  readonly retryLater: boolean;
  /** True when the source runs out by itself (a file), so that `run()` resolves without being stopped. */
  readonly finite: boolean;
  /**
   * True when a delivery may lie in this process for a while without harm, so that a lane may be asked for its next
   * batch while one is in work. Not where a visibility timeout runs from the moment it is received. Default false.
   */
  readonly readAhead?: boolean;
  /**
   * True when lanes come and go with single deliveries: then none is marked as in work in the store, and messages that end
   * processes are not looked for. Default false.
   */
  readonly briefLanes?: boolean;
  /**
   * How long after its first delivery a message can come again from this source, in milliseconds, where that is known: the
   * retention of a queue. Ids must be kept for longer.
   */
  readonly redeliveryHorizonMs?: number;
}

/** What happens to one delivery after its effect is durable, or after it was decided to try it again. */
export type Settlement =
  | {
      readonly delivery: Delivery;
      readonly settle: 'ack' /** What became of it, for sources that tell people. */;
      readonly verdict?: string;
    }
  | { readonly delivery: Delivery; readonly settle: 'retry-later'; readonly delayMs: number };

/** A partition, FIFO group or file while this process owns it: the unit of order and of a batch. */
export interface Lane {
  /** Stable over restarts: `payments/3`, `file:payments.jsonl`. */
  readonly id: string;
  /** Aborts when the lane is taken away. Nothing may be settled for it afterwards. */
  readonly revoked: AbortSignal;
  /**
   * From a source that learns of it before: aborts when the lane is about to be taken away. No handler starts any more;
   * what has committed is still settled, and then `ended` is called. Never later than `revoked`.
   */
  readonly leaving?: AbortSignal;
  /** Nothing of the lane is in work any more, and nothing more will be settled. */
  ended?(): void;
  /** Where the lane is an ordered log, and `ReceiveOptions.positioned` was set: it hands out nothing before `beginAt`. */
  readonly log?: LaneLog | undefined;
  /**
   * Up to `max` deliveries in lane order; waits for at least one. An empty array means that the lane has ended:
   * exhausted, revoked, or `signal` aborted. Not calling it is the pause: the source keeps its membership alive and
   * bounds what it buffers. Never called twice at once; with `readAhead` also before the last batch is settled, but
   * never two batches ahead.
   */
  receive(max: number, signal: AbortSignal): Promise<readonly Delivery[]>;
  /**
   * Tells the source what became of deliveries. Called only after the store has committed. What is never settled when
   * the lane ends goes back to the broker. Settling twice, or on a revoked lane, does nothing.
   */
  settle(settlements: readonly Settlement[]): Promise<void>;
}

export interface ReceiveOptions {
  /** Aborts when the consumer stops: no new lanes, no new deliveries. */
  readonly signal: AbortSignal;
  /** The consumer's logical name, for sources that keep a position or group per consumer. */
  readonly consumer: string;
  /** Where a source without a broker keeps how far it has come: in the same store as the inbox. */
  readonly positions: Positions;
  /** The consumer says where each lane begins, by its `log`. */
  readonly positioned?: boolean;
}

/** How much is still to come, as far as a source can tell without asking anybody. */
export interface Lag {
  /** 0 or more. */
  readonly amount: number;
  readonly unit: 'bytes' | 'messages';
}

/** Where deliveries come from. Moves bytes; decides nothing. */
export interface Source {
  /** For people: `kafka`, `jsonl payments.jsonl`. */
  readonly name: string;
  readonly capabilities: SourceCapabilities;
  /**
   * Yields each lane when this process gets it, and ends when the source is exhausted or `signal` aborts. The consumer
   * calls `return()` once every lane it took has finished, which closes connections.
   */
  receive(options: ReceiveOptions): AsyncIterable<Lane>;
  /** What this consumer has not handled yet, for a progress line; undefined while it is not known. Cheap. */
  lag?(): Lag | undefined;
}
