import { consumeLane } from '../consumer.ts';
import { backoffMs } from '../core/backoff.ts';
import { anyOf } from '../core/on-abort.ts';
import { isNevertwiceError } from '../errors.ts';
import type { LaneRun } from '../lanes.ts';
import type { LaneRows } from '../ports/lanes.ts';
import type { LanePosition } from './lane-position.ts';
import { firstLook, openLane, reopenLane } from './open-lane.ts';

/** How often a lane that commits nothing looks whether it is still its own: a person may have said where to begin. */
const LOOKS = { minMs: 250, maxMs: 10_000 };

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
  const taken = new AbortController();
  const ended = new AbortController();
  const stopping = anyOf([run.stopping, taken.signal]);
  const watching = watch(run, rows, open.position, anyOf([run.stopping, ended.signal]), taken);
  try {
    const received = await firstLook({ ...opening, stopping: stopping.signal }, open);
    if (received !== undefined)
      await consumeLane({ ...run, stopping: stopping.signal, position: open.position }, received);
  } catch (error) {
    if (!isNevertwiceError(error, 'NT_LANE_LOST')) throw error;
    taken.abort();
  } finally {
    ended.abort();
    stopping.release();
    // Its last look still holds a connection: whoever waits for the run to end closes the pool next.
    await watching;
  }
  if (run.stopping.aborted || !taken.signal.aborted) return;
  path.warn(
    'NT_LANE_LOST',
    `${path.consumer}: another process has taken ${lane.id} over, or its position was set by hand`,
  );
  await reopenLane(opening);
}

/** A batch that commits proves that the lane is ours; without one, the row is looked at. */
async function watch(
  { path, lane }: LaneRun,
  rows: LaneRows,
  position: LanePosition,
  stopped: ReturnType<typeof anyOf>,
  taken: AbortController,
): Promise<void> {
  const { signal } = stopped;
  let at = position.at;
  for (let looks = 1; !signal.aborted && !taken.signal.aborted; looks++) {
    await path.clock.sleep(backoffMs(looks, LOOKS, path.clock.random()), signal);
    if (signal.aborted) break;
    if (position.at !== at) {
      at = position.at;
      continue;
    }
    const { epoch } = position;
    // What a look cannot find out, the next batch or the next look does.
    const all = await rows.list(path.consumer).catch(() => []);
    const row = all.find(one => one.lane === lane.id);
    if (row !== undefined && row.epoch !== epoch && position.epoch === epoch) taken.abort();
  }
  stopped.release();
}
