import { NevertwiceError } from '../../../../errors.ts';
import type { TopicPartition } from '../../client.ts';
import type { ConfluentProducerLike } from './producer.ts';

/** What we call on `new KafkaJS.Kafka(…)` of @confluentinc/kafka-javascript. */
export interface ConfluentLike {
  consumer(config: any): ConfluentConsumerLike;
  producer(config: any): ConfluentProducerLike;
}

export interface ConfluentConsumerLike {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  dependentAdmin(): ConfluentAdminLike;
}

export interface ConfluentAdminLike {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  fetchTopicMetadata(options: { topics: string[]; timeout: number }): Promise<readonly ConfluentTopic[]>;
}

/** Declared with `base64str`; what 1.10.1 gives has `base64`. */
export interface ConfluentUuid {
  readonly base64?: string;
  readonly base64str?: string;
}

export interface ConfluentTopic {
  readonly topicId?: ConfluentUuid | undefined;
  readonly partitions: readonly unknown[];
}

/** The consumer of the callback API, which every consumer of the promise API has inside. Offsets are doubles. */
export interface InnerConsumer {
  on(event: string, listener: (event: any) => void): unknown;
  getClient?(): { configureCallbacks?(add: boolean, callbacks: object): void };
  subscribe(topics: string[]): unknown;
  setDefaultConsumeTimeout(ms: number): void;
  consume(max: number, done: (error?: unknown, messages?: readonly InnerMessage[]) => void): void;
  unassign(): unknown;
  incrementalUnassign(partitions: readonly TopicPartition[]): unknown;
  assignmentLost(): boolean;
  rebalanceProtocol(): string;
  pause(partitions: readonly TopicPartition[]): unknown;
  resume(partitions: readonly TopicPartition[]): unknown;
  seek(to: InnerOffset, timeoutMs: number, done: (error?: unknown) => void): unknown;
  commitCb(offsets: readonly InnerOffset[], done: (error?: unknown) => void): unknown;
  /** A partition that could not be looked up stands in the list as an Error. */
  committed(
    partitions: readonly TopicPartition[],
    timeoutMs: number,
    done: (error: unknown, offsets: readonly (Partial<InnerOffset> | Error)[]) => void,
  ): unknown;
  /** What the last fetch said. */
  getWatermarkOffsets(topic: string, partition: number): Watermarks;
  queryWatermarkOffsets(
    topic: string,
    partition: number,
    timeoutMs: number,
    done: (error: unknown, offsets: Watermarks) => void,
  ): void;
}

export interface InnerMessage extends TopicPartition {
  readonly offset: number;
  readonly key?: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly timestamp?: number;
  readonly headers?: readonly Readonly<Record<string, unknown>>[];
  readonly leaderEpoch?: number;
}

export interface InnerOffset extends TopicPartition {
  readonly offset: number;
  readonly metadata?: string;
}

interface Watermarks {
  readonly lowOffset: number;
  readonly highOffset: number;
}

/** What the promise API hands to `rebalance_cb`. */
export interface RebalanceAnswer {
  assign(partitions: readonly InnerOffset[]): void;
  assignmentLost(): boolean;
}

/**
 * The consumer inside a consumer that has begun to connect.
 *
 * Its own loop (`run`) is not used: it keeps messages in a cache and stalls for good after some rebalances
 * (confluent-kafka-javascript #476), tells nothing of where a partition ends, and gives up what it has fetched at every
 * pause. The accessor is not documented, but the promise API's own admin client stands on it.
 * Undefined when there is none.
 */
export function innerOf(consumer: ConfluentConsumerLike): InnerConsumer | undefined {
  const { _getInternalClient: accessor } = consumer as { _getInternalClient?: () => InnerConsumer | null };
  const inner = typeof accessor === 'function' ? accessor.call(consumer) : undefined;
  return typeof inner?.consume === 'function' ? inner : undefined;
}

export function noInner(): never {
  throw new NevertwiceError(
    'NT_CONFIG',
    'this version of @confluentinc/kafka-javascript hides its consumer; use one that docs/kafka.md names',
  );
}

/** Calls `listener` when there is something to consume. A hint that saves looking often; nothing may depend on it. */
export function onNonEmpty(inner: InnerConsumer, listener: () => void): void {
  try {
    inner.getClient?.().configureCallbacks?.(true, { event: { queue_non_empty_cb: listener } });
  } catch {}
}

/** A call that ends in a callback, as a promise. */
export function called<T = void>(call: (done: (error?: unknown, result?: T) => void) => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, result) => {
      if (error === null || error === undefined) resolve(result as T);
      else reject(error);
    });
  });
}
