import {
  type CommittedOffset,
  laneIdOf,
  type OffsetToCommit,
  type PartitionState,
  type TopicPartition,
} from '../../client.ts';
import { byTopic, TIMESTAMP, type Wire } from './wire.ts';

/** Who commits: the broker takes nothing from a member of an earlier generation. */
export interface Generation {
  readonly memberId: string;
  readonly generationId: number;
}

/** A producer with its transaction. */
export interface TransactionId {
  readonly transactionalId: string;
  readonly producerId: bigint | undefined;
  readonly producerEpoch: number | undefined;
}

/** What a group has committed, asked and written with the requests themselves. */
export class GroupOffsets {
  readonly #wire: Wire;
  readonly #groupId: string;
  readonly #instanceId: string | undefined;

  constructor(wire: Wire, groupId: string, instanceId: string | undefined) {
    this.#wire = wire;
    this.#groupId = groupId;
    this.#instanceId = instanceId;
  }

  // Not their `commit`: it writes no metadata, and what is refused under one generation it sends again under the next.
  async commit({ generationId, memberId }: Generation, offsets: readonly OffsetToCommit[]): Promise<void> {
    const instanceId = this.#instanceId ?? null;
    await this.#wire.sendToCoordinator(
      'OffsetCommit',
      this.#groupId,
      generationId,
      memberId,
      instanceId,
      requestOf(offsets),
    );
  }

  /** As part of a transaction, to which the group was added. */
  async commitIn(
    { transactionalId, producerId, producerEpoch }: TransactionId,
    { generationId, memberId }: Generation,
    offsets: readonly OffsetToCommit[],
  ): Promise<void> {
    await this.#wire.sendToCoordinator(
      'TxnOffsetCommit',
      transactionalId,
      this.#groupId,
      producerId,
      producerEpoch,
      generationId,
      memberId,
      this.#instanceId ?? null,
      requestOf(offsets),
    );
  }

  /** For each of them in their order; undefined where nothing is committed. */
  async committed(partitions: readonly TopicPartition[]): Promise<readonly (CommittedOffset | undefined)[]> {
    const topics = [...byTopic(partitions)].map(([name, ofTopic]) => ({
      name,
      partitionIndexes: ofTopic.map(({ partition }) => partition),
    }));
    const asked = { groupId: this.#groupId, memberId: null, memberEpoch: -1, topics };
    const answer: OffsetFetchResponse = await this.#wire.sendToCoordinator('OffsetFetch', [asked], true);
    const found = new Map<string, CommittedOffset>();
    // One group an answer, in versions that know no other.
    for (const { name, partitions: parts } of answer.groups?.[0]?.topics ?? answer.topics ?? []) {
      for (const { partitionIndex, committedOffset, metadata } of parts) {
        if (committedOffset < 0n) continue;
        found.set(laneIdOf({ topic: name, partition: partitionIndex }), { offset: committedOffset, metadata });
      }
    }
    return partitions.map(at => found.get(laneIdOf(at)));
  }

  async inspect(at: TopicPartition): Promise<PartitionState> {
    const { id, topics } = await this.#wire.consumer.metadata({ topics: [at.topic], forceUpdate: true });
    const topic = topics.get(at.topic);
    if (topic === undefined) throw new Error(`the broker does not know the topic ${at.topic}`);
    const [[earliest], [end], [committed]] = await Promise.all([
      this.#wire.offsetsAt(TIMESTAMP.earliest, [at]),
      this.#wire.offsetsAt(TIMESTAMP.latest, [at]),
      this.committed([at]),
    ]);
    return {
      clusterId: id,
      // From brokers that know no ids, the client makes one of the name.
      topicId: topic.id === at.topic ? undefined : topic.id,
      earliest: earliest!,
      end: end!,
      partitions: topic.partitionsCount,
      committed,
    };
  }
}

function requestOf(offsets: readonly OffsetToCommit[]): object[] {
  return [...byTopic(offsets)].map(([name, ofTopic]) => ({
    name,
    partitions: ofTopic.map(({ partition, offset, metadata }) => ({
      partitionIndex: partition,
      committedOffset: offset,
      committedLeaderEpoch: -1,
      committedMetadata: metadata ?? null,
    })),
  }));
}

interface OffsetFetchResponse {
  readonly groups?: readonly { readonly topics: readonly CommittedTopic[] }[];
  readonly topics?: readonly CommittedTopic[];
}

interface CommittedTopic {
  readonly name: string;
  readonly partitions: readonly {
    readonly partitionIndex: number;
    readonly committedOffset: bigint;
    readonly metadata: string | null;
  }[];
}
