import type { LaneRow } from '../ports/lanes.ts';
import type { LogState } from '../ports/log.ts';
import { fieldOf, otherLog } from './mark.ts';

/** What an assignment finds: a place to begin, or a question that only a person can answer. */
export type Finding =
  | {
      readonly found: 'begin';
      readonly position: bigint;
      /** The record before it is looked at, where it is still there. */
      readonly mark: string | undefined;
      /** The row does not say this yet. */
      readonly write: boolean;
      /** Offsets that the group had already committed and that come again, since the database has lost them. */
      readonly replayed: bigint;
    }
  | { readonly found: 'question'; readonly code: 'NT_LOG_CHANGED' | 'NT_OFFSET_RESET'; readonly reason: string };

/**
 * Where a lane begins. The database is believed before the broker, since its position is what the effects agree with; and
 * where the two cannot be made to agree nobody guesses: going on would drop new records as old ones, or do old ones again.
 */
export function judge(row: LaneRow, log: LogState, topicRows: readonly LaneRow[]): Finding {
  if (row.beginAt !== undefined) return ordered(row, row.beginAt, log);
  if (row.position === undefined) return first(log, topicRows);

  const other = otherLog(row.log, log);
  if (other !== undefined) {
    const what = other === 'cluster' ? 'this is another cluster' : 'the topic was deleted and made again';
    return changed(`${what} since position ${row.position} was recorded`);
  }
  return problem(row, row.position, log) ?? begin(row.position, log, row);
}

function problem(row: LaneRow, position: bigint, log: LogState): Finding | undefined {
  const { committed } = log;
  if (position > log.end) {
    return changed(`the log ends at ${log.end}, before position ${position}: it lost its end, or is a new one`);
  }
  if (committed?.position === null && committed.offset !== position) {
    return {
      found: 'question',
      code: 'NT_OFFSET_RESET',
      reason: `somebody has set the group's offset to ${committed.offset}, and the position is ${position}`,
    };
  }
  if (position >= log.earliest) return undefined;
  // Nothing but markers and aborted records lay between, when it was us who committed the later offset from here.
  if (committed?.position === position && committed.offset >= log.earliest) return begin(committed.offset, log, row);
  return changed(`the log begins at ${log.earliest}, behind position ${position}: what lies between is gone unread`);
}

function begin(position: bigint, log: LogState, row: LaneRow): Finding {
  const recorded = log.committed?.position;
  const replayed = typeof recorded === 'bigint' && recorded > position ? recorded - position : 0n;
  const stays = position === row.position;
  return { found: 'begin', position, mark: stays ? row.mark : undefined, write: !stays, replayed };
}

function fresh(position: bigint): Finding {
  return { found: 'begin', position, mark: undefined, write: true, replayed: 0n };
}

function first(log: LogState, topicRows: readonly LaneRow[]): Finding {
  const { committed, earliest, end } = log;
  if (typeof committed?.position === 'bigint') {
    return changed(
      `this consumer had come to ${committed.position}, says the group, and its database knows nothing of it, as when it has lost its last commits`,
    );
  }
  if (committed !== undefined && committed.offset >= earliest && committed.offset <= end)
    return fresh(committed.offset);
  if (committed !== undefined) {
    return changed(`the group's offset ${committed.offset} is not in the log, which goes from ${earliest} to ${end}`);
  }
  // A partition that was added since the consumer knows the topic holds nothing that anybody has seen.
  const added = topicRows.some(row => Number(fieldOf(row.log, 'partitions') ?? Number.NaN) <= log.partition);
  return fresh(added ? earliest : log.start);
}

function ordered(row: LaneRow, order: string, log: LogState): Finding {
  const { earliest, end, committed } = log;
  switch (order) {
    case 'group':
      return fresh(committed === undefined ? earliest : clamp(committed.offset, earliest, end));
    case 'earliest':
      return fresh(earliest);
    case 'latest':
      return fresh(end);
    case 'position':
      if (row.position === undefined) return fresh(earliest);
      return {
        found: 'begin',
        position: clamp(row.position, earliest, end),
        mark: undefined,
        write: true,
        replayed: 0n,
      };
    default:
      return fresh(clamp(BigInt(order), earliest, end));
  }
}

function clamp(offset: bigint, low: bigint, high: bigint): bigint {
  if (offset < low) return low;
  return offset > high ? high : offset;
}

function changed(reason: string): Finding {
  return { found: 'question', code: 'NT_LOG_CHANGED', reason };
}
