import type { LogState } from '../../ports/log.ts';
import type { PartitionState, TopicPartition } from './client.ts';
import type { LaneLimits } from './lane.ts';

const PREFIX = 'nevertwice position=';

/** What goes beside an offset when it is committed. A tool that sets the offset later writes something else. */
export function metadataOf(position: bigint): string {
  return `${PREFIX}${position}`;
}

function positionIn(metadata: string | null | undefined): bigint | null | undefined {
  if (metadata === undefined) return undefined;
  const digits = metadata?.startsWith(PREFIX) ? metadata.slice(PREFIX.length) : '';
  return /^\d+$/.test(digits) ? BigInt(digits) : null;
}

/** The state of a partition as its lane shows it to the consumer. */
export function logStateOf(state: PartitionState, at: TopicPartition, { fromEarliest }: LaneLimits): LogState {
  const { clusterId, topicId, earliest, end, partitions, committed } = state;
  return {
    clusterId,
    topicId,
    earliest,
    end,
    partition: at.partition,
    partitions,
    start: fromEarliest ? earliest : end,
    committed:
      committed === undefined ? undefined : { offset: committed.offset, position: positionIn(committed.metadata) },
  };
}
