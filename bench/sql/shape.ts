import type { Contestant, Row } from '../contest.ts';

/** One way to consume, with its rivals: the rows that it gives and whoever competes in them. */
export interface Shape<Place> {
  readonly rows: readonly Row[];
  /** Cheap: a contestant opens its connections and tables when it is first prepared. */
  contestants(place: Place): readonly Contestant[];
}
