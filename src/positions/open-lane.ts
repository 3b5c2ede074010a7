import { backoffMs } from '../core/backoff.ts';
import { onAbort } from '../core/on-abort.ts';
import { describeError, isNevertwiceError, NevertwiceError } from '../errors.ts';
import type { Health } from '../outage.ts';
import type { Path } from '../path.ts';
import type { Delivery } from '../ports/delivery.ts';
import type { LaneRow, LaneRows } from '../ports/lanes.ts';
import type { LaneLog } from '../ports/log.ts';
import type { Lane } from '../ports/source.ts';
import { judge } from './judge.ts';
import { LanePosition } from './lane-position.ts';
import { extended, isMarked, logText } from './mark.ts';

/** How often a lane that waits, for the broker or for a person, looks again. */
const LOOKS = { minMs: 250, maxMs: 10_000 };

export interface Opening {
  readonly path: Path;
  readonly lane: Lane;
  readonly rows: LaneRows;
  readonly health: Health;
  readonly stopping: AbortSignal;
}

/** A lane that is ours, and begins. */
export interface OpenLane {
  readonly position: LanePosition;
  /** The record before the position, where it is to be looked at. */
  readonly mark: string | undefined;
  /** The group's offset is somebody else's word, which the lane has begun with or was told to pass over. */
  readonly foreign: boolean;
}

/**
 * Takes a lane over and has it begin where the database says. Undefined when the lane ends before, or begins anew.
 *
 * Where the log is not the one that the position was kept for, or somebody has set the group's offset, the lane waits and
 * says so, until a person has answered or things are as they were; other lanes go on.
 */
export async function openLane(opening: Opening): Promise<OpenLane | undefined> {
  const { path, lane, rows, stopping } = opening;
  const log = logOf(opening);
  let row = await throughOutages(opening, () => rows.raise(path.consumer, lane.id));
  for (let looks = 1; row !== undefined && !stopping.aborted; looks++) {
    const begun = await begin(opening, log, row);
    if (begun === 'lost') return reopenLane(opening);
    if (begun !== undefined) return opened(opening, log, begun);
    await path.clock.sleep(backoffMs(looks, LOOKS, path.clock.random()), stopping);
    // Once more what the row says, if it is still ours: a person may have answered.
    const { epoch }: LaneRow = row;
    row = await throughOutages(opening, () => rows.reraise(path.consumer, lane.id, epoch));
    if (row === undefined && !stopping.aborted) return reopenLane(opening);
  }
  return undefined;
}

function logOf({ path, lane }: Opening): LaneLog {
  if (lane.log !== undefined) return lane.log;
  throw new NevertwiceError(
    'NT_CONFIG',
    `${path.consumer}: dedupe by position needs a source that is an ordered log, such as Kafka; use dedupe: 'id' here`,
  );
}

type Begun = LaneRow & { readonly position: bigint; readonly earliest: bigint; readonly foreign: boolean };

/** Where it begins; undefined while nobody can say, `lost` where another owner has come. */
async function begin(opening: Opening, log: LaneLog, row: LaneRow): Promise<Begun | 'lost' | undefined> {
  const { path, lane, rows } = opening;
  // A client may try for long; a lane that goes does not wait for it.
  const state = await unlessAborted(opening.stopping, log.inspect()).catch(error => {
    path.warn('NT_SOURCE_DOWN', `${path.consumer}: ${lane.id} cannot be looked at yet: ${describeError(error)}`);
    return undefined;
  });
  if (state === undefined) return undefined;
  const topicRows = await throughOutages(opening, () => rows.list(path.consumer));
  if (topicRows === undefined) return undefined;
  const topic = lane.id.slice(0, lane.id.lastIndexOf('/') + 1);
  const finding = judge(
    row,
    state,
    topicRows.filter(other => other.lane.startsWith(topic)),
  );
  if (finding.found === 'question') {
    ask(opening, finding.code, finding.reason);
    return undefined;
  }
  const { position, mark, replayed, write } = finding;
  if (replayed > 0n) {
    path.warn(
      'NT_REPLAY',
      `${path.consumer}: the database is ${replayed} offsets behind what the group had committed for ${lane.id}, as after a failover; they come again from ${position}`,
    );
  }
  const text = row.position === undefined || row.beginAt !== undefined ? logText(state) : extended(row.log, state);
  if (write || text !== row.log) {
    const written = await throughOutages(opening, () =>
      rows.begin(path.consumer, lane.id, row.epoch, { position, log: text, mark }),
    );
    if (written === undefined) return undefined;
    if (!written) return 'lost';
  }
  return { ...row, position, mark, earliest: state.earliest, foreign: state.committed?.position === null };
}

function opened({ path, rows }: Opening, log: LaneLog, { foreign, earliest, ...row }: Begun): OpenLane {
  const position = new LanePosition(rows, path.consumer, path.dedupe === 'position', row);
  log.recorded(row.position);
  const looked = row.mark !== undefined && row.position > earliest;
  log.beginAt(looked ? row.position - 1n : row.position);
  return { position, mark: looked ? row.mark : undefined, foreign };
}

/**
 * What comes before the first batch: the record before the position is compared with what was handled, where it is still
 * there, and the group's offset is made ours. Deliveries that were received for it and are the lane's first; undefined when
 * the lane ends, or begins anew.
 */
export async function firstLook(
  opening: Opening,
  { position, mark, foreign }: OpenLane,
): Promise<readonly Delivery[] | undefined> {
  const { lane, stopping } = opening;
  const log = logOf(opening);
  let received: readonly Delivery[] = [];
  if (mark !== undefined) {
    const [record] = await lane.receive(1, stopping);
    if (record === undefined) return undefined;
    // Compacted, or behind a retention that ends right here: there is nothing to compare with.
    if (record.offset! >= position.at) received = [record];
    else if (isMarked(record, mark)) await lane.settle([{ delivery: record, settle: 'ack', verdict: 'duplicate' }]);
    else {
      ask(opening, 'NT_LOG_CHANGED', `the record at ${record.offset} is not the one that was handled`);
      // The answer raises the epoch, which takes the lane from us as another owner would.
      await new Promise<void>(resolve => onAbort(stopping, resolve));
      return undefined;
    }
  }
  // Before anything is committed in the database: then the group's offset is still where the lane has begun, and later it
  // would look like news.
  if (foreign) await unlessAborted(stopping, log.claim());
  return stopping.aborted ? undefined : received;
}

function unlessAborted<R>(signal: AbortSignal, promise: Promise<R>): Promise<R | undefined> {
  const aborted = Promise.withResolvers<undefined>();
  const unheard = onAbort(signal, () => aborted.resolve(undefined));
  return Promise.race([promise, aborted.promise]).finally(unheard);
}

/** Another owner, or an answer: the lane begins anew, a moment later, so that two who believe to own it do not race. */
export async function reopenLane({ path, lane, stopping }: Opening): Promise<undefined> {
  await path.clock.sleep(backoffMs(1, { minMs: 200, maxMs: 1_000 }, path.clock.random()), stopping);
  if (!stopping.aborted) lane.log?.reopen();
}

function ask({ path, lane }: Opening, code: string, reason: string): void {
  path.warn(
    code,
    `${path.consumer}: ${lane.id} is stopped: ${reason}; answer with "nevertwice positions accept" (what Kafka has now is right) or "positions reset" (go on at a place that you name)`,
  );
}

/** The work's result; undefined when the lane ended while the store was down. */
async function throughOutages<R>({ path, health, stopping }: Opening, work: () => Promise<R>): Promise<R | undefined> {
  while (!stopping.aborted) {
    try {
      return await work();
    } catch (error) {
      if (!isNevertwiceError(error, 'NT_STORE_DOWN')) throw error;
      path.warn('NT_STORE_DOWN', `${path.consumer} pauses: ${describeError(error)}`);
      await health.recovered(stopping);
    }
  }
  return undefined;
}
