import { NevertwiceError } from '../../errors.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import type { Lane, ReceiveOptions, Source } from '../../ports/source.ts';
import type { KafkaClient } from './client.ts';
import { KafkaGroup } from './group.ts';
import type { LaneLimits } from './lane.ts';

export type {
  Fetched,
  JoinOptions,
  KafkaClient,
  KafkaRecord,
  Member,
  MemberEvents,
  TopicPartition,
} from './client.ts';
export {
  type ConfluentAdminLike,
  type ConfluentConsumerLike,
  type ConfluentLike,
  type ConfluentOptions,
  type ConfluentProducerLike,
  type ConfluentTopic,
  type ConfluentUuid,
  confluent,
} from './clients/confluent.ts';
export { type KafkaJsLike, type KafkaJsOptions, type KafkaJsProducerLike, kafkajs } from './clients/kafkajs.ts';
export {
  type PlatformaticLike,
  type PlatformaticOptions,
  type PlatformaticProducerLike,
  platformatic,
} from './clients/platformatic.ts';
export { type KafkaDestinationOptions, kafkaDestination } from './destination.ts';
export {
  type FailureKind as ProducerFailureKind,
  type KafkaPublisher,
  type ProducedRecord,
  ProducerFailure,
  type ProducerOptions as KafkaProducerOptions,
  type PublisherOptions as KafkaPublisherOptions,
  type Transaction as KafkaTransaction,
  type TransactionalProducer,
} from './producer.ts';
export { kafkaTransform } from './transform/kafka-transform.ts';
export type {
  KafkaTransform,
  KafkaTransformOptions,
  OutputRecord,
  Outputs,
  TransformContext,
  TransformMessage,
  TransformRunOptions,
  TransformSummary,
} from './transform/types.ts';

export interface KafkaOptions {
  /** The user's own client, wrapped by its name: `kafkajs(kafka)`. Its security options never pass through here. */
  readonly client: KafkaClient;
  readonly topics: readonly string[];
  /** Default: the consumer's name. */
  readonly groupId?: string;
  /** Where a partition begins that the group has never committed anything for. Default `earliest`: `latest` skips what is there. */
  readonly from?: 'earliest' | 'latest';
  /** Records of one partition that may wait in this process before it is paused. Default 2,000; with confluent 10,000. */
  readonly maxBuffered?: number;
  /** The header that names a message's type, for handlers by type. Default `type`. */
  readonly typeHeader?: string;
  /** Default: the system's. */
  readonly clock?: Clock;
}

/**
 * Messages from a Kafka consumer group; every partition is a lane.
 *
 * Offsets are committed only after the store has committed, only as far as everything before is settled, and only for
 * partitions that are ours; so what a crash leaves uncommitted is delivered again and is a duplicate then. Members stay in
 * the group however long a handler takes, and while the store is down. Reads committed records only. One delivery cannot
 * be handed back: a message that has to wait has its lane wait.
 *
 * @throws NevertwiceError NT_CONFIG for no topics or wrong options; from `run` NT_SOURCE_DOWN when the brokers cannot be
 * reached at the start (later the client reconnects by itself), NT_CONFIG for a topic that does not exist
 */
export function kafkaSource(options: KafkaOptions): Source {
  const { client, topics, groupId, from = 'earliest', clock = systemClock } = options;
  if (topics.length === 0) throw new NevertwiceError('NT_CONFIG', 'kafkaSource got no topics; give at least one');
  const limits: Omit<LaneLimits, 'positioned' | 'consumer'> = {
    maxBuffered: options.maxBuffered ?? client.maxBuffered ?? 2_000,
    typeHeader: options.typeHeader ?? 'type',
    fromEarliest: from === 'earliest',
  };
  if (!Number.isSafeInteger(limits.maxBuffered) || limits.maxBuffered < 1) {
    throw new NevertwiceError('NT_CONFIG', `maxBuffered is ${limits.maxBuffered}; give a positive integer`);
  }
  let latest: KafkaGroup | undefined;
  return {
    name: `kafka ${topics.join(', ')} (${client.name})`,
    capabilities: { retryLater: false, finite: false, readAhead: true },
    receive: run => ({
      [Symbol.asyncIterator]: () => {
        const group = new KafkaGroup({ ...limits, consumer: run.consumer, positioned: run.positioned === true }, clock);
        latest = group;
        return membership(group, run, () =>
          client.join({ groupId: groupId ?? run.consumer, topics: [...new Set(topics)], from }, group),
        );
      },
    }),
    lag: () => {
      const amount = latest?.lag;
      return amount === undefined ? undefined : { amount, unit: 'messages' };
    },
  };
}

// Not a generator: that would leave the group when the signal ends it, while lanes still have something to settle.
function membership(
  group: KafkaGroup,
  { signal }: ReceiveOptions,
  join: () => ReturnType<KafkaClient['join']>,
): AsyncIterator<Lane> {
  let joined = false;
  return {
    async next() {
      if (!joined && !signal.aborted) {
        joined = true;
        group.joined(await join());
      }
      const lane = await group.nextLane(signal);
      return lane === undefined ? { done: true, value: undefined } : { done: false, value: lane };
    },
    async return() {
      await group.leave();
      return { done: true, value: undefined };
    },
  };
}
