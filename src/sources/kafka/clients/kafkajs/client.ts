import type { RawMessage } from './aborted.ts';
import type { KafkaJsProducerLike } from './producer.ts';

/** What we call on `new Kafka(…)` of kafkajs 2. */
export interface KafkaJsLike {
  consumer(config: any): KafkaJsConsumerLike;
  admin(): KafkaJsAdminLike;
  producer(config: any): KafkaJsProducerLike;
}

export interface KafkaJsAdminLike {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  describeCluster(): Promise<{ readonly clusterId: string }>;
  fetchTopicOffsets(topic: string): Promise<readonly { partition: number; high: string; low: string }[]>;
  fetchOffsets(options: { groupId: string; topics: string[] }): Promise<
    readonly {
      readonly partitions: readonly { partition: number; offset: string; metadata: string | null }[];
    }[]
  >;
}

export interface KafkaJsConsumerLike {
  readonly events: {
    readonly GROUP_JOIN: string;
    readonly REBALANCING: string;
    readonly CRASH: string;
    readonly END_BATCH_PROCESS: string;
  };
  on(event: any, listener: (event: { readonly payload: any }) => void): unknown;
  connect(): Promise<void>;
  subscribe(options: { topics: string[]; fromBeginning: boolean }): Promise<void>;
  run(options: any): Promise<void>;
  pause(partitions: { topic: string; partitions: number[] }[]): void;
  resume(partitions: { topic: string; partitions: number[] }[]): void;
  seek(to: { topic: string; partition: number; offset: string }): void;
  disconnect(): Promise<void>;
}

export interface KafkaJsPayload {
  readonly batch: KafkaJsBatch;
  commitOffsetsIfNecessary(offsets: {
    topics: { topic: string; partitions: { partition: number; offset: string; metadata: string | null }[] }[];
  }): Promise<void>;
}

export interface KafkaJsBatch {
  readonly topic: string;
  readonly partition: number;
  readonly highWatermark: string;
  readonly fetchedOffset?: string | number;
  readonly messages: readonly KafkaJsMessage[];
  readonly rawMessages?: readonly RawMessage[];
  firstOffset(): string | null;
  lastOffset(): string;
}

export interface KafkaJsMessage {
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly timestamp: string;
  readonly offset: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly batchContext?: RawMessage['batchContext'] & { readonly partitionLeaderEpoch?: number };
}
