import type { LogState } from '../../ports/log.ts';
import type { PartitionState, TopicPartition } from './client.ts';
import type { LaneLimits } from './lane.ts';

/**
 * What goes beside an offset when it is committed: `nevertwice position=41 consumer=wallet`. A tool that sets the offset
 * later writes something else, and so does another consumer in the same group.
 */
export function metadataOf(position: bigint, consumer: string): string {
  return `nevertwice position=${position}${ofConsumer(consumer)}`;
}

const ofConsumer = (consumer: string) => ` consumer=${encodeURIComponent(consumer)}`;

function positionIn(metadata: string | null | undefined, consumer: string): bigint | null | undefined {
  if (metadata === undefined) return undefined;
  const digits = /^nevertwice position=(\d+) /.exec(metadata ?? '')?.[1];
  return digits !== undefined && metadata === metadataOf(BigInt(digits), consumer) ? BigInt(digits) : null;
}

/** The state of a partition as its lane shows it to the consumer. */
export function logStateOf(
  state: PartitionState,
  at: TopicPartition,
  { fromEarliest, consumer }: LaneLimits,
): LogState {
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
      committed === undefined
        ? undefined
        : { offset: committed.offset, position: positionIn(committed.metadata, consumer) },
  };
}
