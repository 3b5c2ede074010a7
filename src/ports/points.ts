/**
 * The six steps of the path, and `effect`: a call to others from within `handle`, written down and not yet made, or made and its
 * result not written down. Also the crash points of the tests and the names of the telemetry events.
 */
export type Step = 'receive' | 'identify' | 'claim' | 'handle' | 'effect' | 'record' | 'settle';

export interface PointAt {
  readonly step: Step;
  /** `before` the step takes effect, or `after` it did. */
  readonly edge: 'before' | 'after';
  readonly consumer: string;
  readonly lane: string;
  /** Message ids concerned; empty where they are not known yet. */
  readonly ids: readonly string[];
}

/** Named points that tests wait on and crash at. Absent in production: the path then pays one comparison a point. */
export interface Points {
  reach(at: PointAt): void | Promise<void>;
}
