import type { Backoff } from '../../../core/backoff.ts';
import { NevertwiceError } from '../../../errors.ts';
import { type Decode, decodeJson } from '../../../handlers.ts';
import { checkedName, oneOf, whole } from '../../../options.ts';
import { type Clock, systemClock } from '../../../ports/clock.ts';
import { warner } from '../../../warnings.ts';
import type { KafkaClient } from '../client.ts';
import type { LaneLimits } from '../lane.ts';
import type { KafkaTransformOptions, Outputs, TransformContext, TransformMessage } from './types.ts';

export interface TransformSettings {
  readonly groupId: string;
  readonly topics: readonly string[];
  readonly from: 'earliest' | 'latest';
  readonly client: KafkaClient;
  readonly producer: NonNullable<KafkaClient['producer']>;
  readonly transactionalId: string;
  readonly transform: Transform;
  readonly deadLetterTopic: string | undefined;
  readonly maxBatch: number;
  readonly attempts: number;
  readonly backoff: Backoff;
  readonly decode: Decode;
  readonly limits: LaneLimits;
  readonly clock: Clock;
  warn(code: string, text: string): void;
}

export type Transform =
  | { readonly one: (message: TransformMessage<any>, context: TransformContext) => Outputs | Promise<Outputs> }
  | {
      readonly many: (
        messages: readonly TransformMessage<any>[],
        context: TransformContext,
      ) => Outputs | Promise<Outputs>;
    };

/** Validates once and copies; the caller's object is neither kept nor changed. */
export function resolveTransform(options: KafkaTransformOptions<any>): TransformSettings {
  const { client, topics, retries = {} } = options;
  if (client.producer === undefined) {
    throw new NevertwiceError('NT_CONFIG', `kafkaTransform cannot use ${client.name}: its wrapper has no transactions`);
  }
  if (topics.length === 0) throw new NevertwiceError('NT_CONFIG', 'kafkaTransform got no topics; give at least one');
  if (options.deadLetterTopic !== undefined && topics.includes(options.deadLetterTopic)) {
    throw new NevertwiceError('NT_CONFIG', 'deadLetterTopic is one of the topics that are read: it would never end');
  }
  const from = oneOf('from', options.from ?? 'earliest', ['earliest', 'latest']);
  const groupId = checkedName(options.groupId);
  return {
    groupId,
    topics: [...new Set(topics)],
    from,
    client,
    producer: client.producer.bind(client),
    transactionalId: checkedName(options.transactionalId ?? groupId),
    transform: transformOf(options),
    deadLetterTopic: options.deadLetterTopic,
    maxBatch: whole('maxBatch', options.maxBatch ?? 500, 1, 10_000),
    attempts: whole('retries.attempts', retries.attempts ?? 5, 1, 1_000),
    backoff: {
      minMs: whole('retries.minMs', retries.minMs ?? 100, 0, 3_600_000),
      maxMs: whole('retries.maxMs', retries.maxMs ?? 10_000, 0, 86_400_000),
    },
    decode: options.decode ?? decodeJson,
    limits: {
      maxBuffered: whole('maxBuffered', options.maxBuffered ?? client.maxBuffered ?? 2_000, 1, 1_000_000),
      typeHeader: options.typeHeader ?? 'type',
      consumer: options.groupId,
      positioned: true,
      transactional: true,
      fromEarliest: from === 'earliest',
    },
    clock: options.clock ?? systemClock,
    warn: warner(),
  };
}

function transformOf({ transform, transformBatch }: KafkaTransformOptions<any>): Transform {
  if ((typeof transform === 'function') === (typeof transformBatch === 'function')) {
    throw new NevertwiceError('NT_CONFIG', 'kafkaTransform needs exactly one of transform and transformBatch');
  }
  return (transform === undefined ? { many: transformBatch } : { one: transform }) as Transform;
}
