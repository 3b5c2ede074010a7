import { consumeLane } from '../consumer.ts';
import { isNevertwiceError } from '../errors.ts';
import type { LaneRun } from '../lanes.ts';
import type { LaneRows } from '../ports/lanes.ts';
import { openLane, reopenLane } from './open-lane.ts';

/**
 * A lane whose position the store keeps: taken over, begun where the position says, and given up when somebody else has
 * taken it over. Two processes may both believe to own it for a moment, and the one that the group has dropped learns of
 * that last: so the other begins anew, from where the two have come by then.
 */
export async function ownLane(run: LaneRun, rows: LaneRows): Promise<void> {
  const { path, lane } = run;
  const opening = { ...run, rows };
  const open = await openLane(opening);
  if (open === undefined) return;
  try {
    await consumeLane({ ...run, position: open.position }, open.received);
  } catch (error) {
    if (!isNevertwiceError(error, 'NT_LANE_LOST')) throw error;
    if (run.stopping.aborted) return;
    path.warn(
      'NT_LANE_LOST',
      `${path.consumer}: another process has taken ${lane.id} over, or its position was set by hand`,
    );
    await reopenLane(opening);
  }
}
