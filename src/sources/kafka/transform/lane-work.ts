import type { Points, Step } from '../../../ports/points.ts';
import type { Member } from '../client.ts';
import type { KafkaLane } from '../lane.ts';
import type { TransformSettings } from './settings.ts';
import type { TransformSummary } from './types.ts';

/** One partition while this process owns it, and all that its work needs. */
export interface LaneWork {
  readonly settings: TransformSettings;
  readonly member: Member;
  readonly lane: KafkaLane;
  readonly counts: TransformSummary;
  /** No transform starts once this aborts; what is in work commits. */
  readonly stopping: AbortSignal;
  /** What is in work is aborted. */
  readonly cutOff: AbortSignal;
  readonly points: Points | undefined;
  /** Positions that are in work in the whole process. */
  readonly inWork: Set<string>;
  /** Failures of this partition, kept from one lane to the next that takes its place. */
  readonly troubles: Troubles;
}

export interface Troubles {
  /** In a row, without a transaction that committed. */
  failures: number;
  /** Times that somebody else's producer took this partition's id although it stayed ours, none of them long before the next. */
  fences: number;
  /** When that last happened, by the clock. */
  fencedAtMs: number;
}

export function transactionalIdOf({ settings, lane }: LaneWork): string {
  // No topic has a slash in its name, so that no two groups and topics meet in one id.
  return `${settings.transactionalId}/${lane.id}`;
}

export async function reach(
  { points, settings, lane }: LaneWork,
  step: Step,
  edge: 'before' | 'after',
  ids: readonly string[],
): Promise<void> {
  if (points !== undefined) await points.reach({ step, edge, consumer: settings.groupId, lane: lane.id, ids });
}
