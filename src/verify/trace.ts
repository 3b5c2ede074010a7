import type { Place } from './gate.ts';

/** What was done to a request, where it was not simply carried out. */
export type Fault = 'crash' | 'reset' | 'reply-lost' | 'in-flight';

/** One line of the story. Consumers are numbered from 1. */
export type TraceEvent =
  | {
      readonly event: 'deliver';
      readonly who: number;
      readonly messages: readonly number[];
      readonly attempt: number;
      /** Why a copy came, where it is not the first. */
      readonly because: string | undefined;
      /** The clock of this consumer is an hour ahead of the others'. */
      readonly ahead: boolean;
      /** The records of what was done are gone. */
      readonly evicted: boolean;
    }
  | {
      readonly event: 'step';
      readonly who: number;
      readonly place: Place;
      readonly connection: number;
      readonly text: string;
      /** Undefined when it was not carried out. */
      readonly result: string | undefined;
      readonly failed: boolean;
      readonly fault: Fault | undefined;
      /** It waited for a lock that another one held. */
      readonly waited: boolean;
      /** It stands still between what it has read and what it is about to write. */
      readonly paused: boolean;
    }
  /** A request of a consumer that had died is carried out now. */
  | {
      readonly event: 'land';
      readonly who: number;
      readonly place: Place;
      readonly text: string;
      readonly result: string;
    }
  /** A statement that waited for a lock, or stood still, has ended. */
  | {
      readonly event: 'unblocked';
      readonly who: number;
      readonly text: string;
      readonly result: string;
      readonly paused: boolean;
    }
  | { readonly event: 'exited'; readonly who: number };

/** One execution, as it went. */
export interface Trace {
  readonly events: readonly TraceEvent[];
  /** The number of the decision before which each event came, for the point of no return. */
  readonly decisionOf: readonly number[];
}
