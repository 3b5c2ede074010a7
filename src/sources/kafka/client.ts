import type { HeadersInput } from '../../core/headers.ts';
import type { KafkaPublisher, ProducerOptions, PublisherOptions, TransactionalProducer } from './producer.ts';

/** One partition of one topic. */
export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

/** A record as it stands in the log; control records and aborted ones are not among them. */
export interface KafkaRecord {
  readonly offset: bigint;
  /** Null where the producer gave none. */
  readonly key: Uint8Array | null;
  /** Null for a tombstone. */
  readonly value: Uint8Array | null;
  /** Milliseconds since 1970: the producer's clock or the broker's, as the topic is set up. */
  readonly timestampMs: number | undefined;
  readonly headers: HeadersInput;
  /** The leader's epoch when the record was written; undefined where the client does not say. */
  readonly leaderEpoch?: number | undefined;
}

/** What a group has committed for a partition. */
export interface CommittedOffset {
  /** The next to be read. */
  readonly offset: bigint;
  /** What whoever committed it wrote beside it; null for nothing; undefined where the client does not say. */
  readonly metadata: string | null | undefined;
}

/** The log of a partition and the group's place in it, as the broker shows them now. */
export interface PartitionState {
  /** Undefined where the client does not show it. */
  readonly clusterId: string | undefined;
  /** Undefined where the client does not show it. A topic that is deleted and made again has another one. */
  readonly topicId: string | undefined;
  /** The lowest offset that is still there. */
  readonly earliest: bigint;
  /** The offset behind the last record. */
  readonly end: bigint;
  /** How many partitions the topic has. */
  readonly partitions: number;
  /** Undefined where the group has committed nothing, or no longer. */
  readonly committed: CommittedOffset | undefined;
}

/** What one fetch gave of a partition. */
export interface Fetched extends TopicPartition {
  /**
   * The offset that was asked for: nothing between it and the first record is missing. Undefined for a fetch without any
   * record to read (all of them aborted, control records or compacted away), where the client does not say.
   */
  readonly from: bigint | undefined;
  readonly records: readonly KafkaRecord[];
  /** The first offset that the fetch does not speak of: behind the last record, control records included. */
  readonly next: bigint;
  /** The offset behind the last record that can be read; undefined when the client does not say. */
  readonly end: bigint | undefined;
}

export interface OffsetToCommit extends TopicPartition {
  /** The next to be read. */
  readonly offset: bigint;
  /** Kept beside the offset, for whoever reads it; at most 4,096 bytes. */
  readonly metadata?: string | undefined;
}

export interface JoinOptions {
  readonly groupId: string;
  readonly topics: readonly string[];
  /** Where a partition begins that the group has never committed anything for. */
  readonly from: 'earliest' | 'latest';
}

/** What a member hears. Called synchronously and in the order in which things happen. */
export interface MemberEvents {
  /** The whole assignment. Whatever was owned before is gone, also where it is given again. */
  assigned(partitions: readonly TopicPartition[]): void;
  /** More partitions beside those that stay: cooperative rebalancing, or a group whose broker assigns. */
  added(partitions: readonly TopicPartition[]): void;
  /**
   * These are taken away; without a list, all of them. Resolves when nothing of them is in work any more, rolled back or
   * committed in the store, and what is settled is committed: a client that can hold the rebalance back waits for it.
   */
  revoked(partitions?: readonly TopicPartition[]): Promise<void>;
  /** These, or all, are gone already, perhaps with another owner: nothing can be committed for them. */
  lost(partitions?: readonly TopicPartition[]): void;
  fetched(fetch: Fetched): void;
  /** It cannot go on. */
  failed(error: unknown): void;
}

/** A member of a consumer group. It stays one, and keeps being one, however long its records are worked on. */
export interface Member {
  /** No further fetches of the partition, until it is resumed or assigned again. */
  pause(partition: TopicPartition): void;
  resume(partition: TopicPartition): void;
  /** The next fetch of the partition begins there. */
  seek(partition: TopicPartition, offset: bigint): void;
  /** Next-to-read offsets of partitions that it owns. Rejects when the broker did not take them. */
  commit(offsets: readonly OffsetToCommit[]): Promise<void>;
  /** Asks the broker, whether or not the partition is paused. Rejects when it does not answer. */
  inspect(partition: TopicPartition): Promise<PartitionState>;
  /** Leaves the group and closes all connections. */
  leave(): Promise<void>;
}

/**
 * A Kafka client, seen through the few verbs that the source needs. Structurally the clients look alike and behave
 * differently, so each is wrapped by its name: `kafkajs(kafka)`.
 */
export interface KafkaClient {
  readonly name: string;
  /** How many records of a partition should wait before it is paused, where a pause costs this client more than others. */
  readonly maxBuffered?: number;
  /** Resolves once the member is set up; the first assignment may come before or after. Rejects with NT_SOURCE_DOWN or NT_CONFIG. */
  join(options: JoinOptions, events: MemberEvents): Promise<Member>;
  /**
   * A producer whose transactions also commit offsets of the group. Once it resolves, whoever had the id before is fenced,
   * and what that one had open is committed or aborted for good. Rejects with `ProducerFailure`. Left out by a client
   * without transactions.
   */
  producer?(options: ProducerOptions): Promise<TransactionalProducer>;
  /** For relays. Rejects with `ProducerFailure`. */
  publisher?(options: PublisherOptions): Promise<KafkaPublisher>;
}

export function laneIdOf({ topic, partition }: TopicPartition): string {
  return `${topic}/${partition}`;
}
