import { describeError } from '../../../errors.ts';
import { type Decode, LazyBody } from '../../../handlers.ts';
import type { Delivery } from '../../../ports/delivery.ts';
import type { TransformMessage } from './types.ts';

/** A record of the batch in work, decoded, or the reason why it cannot be. */
export interface Input {
  readonly delivery: Delivery;
  readonly offset: bigint;
  readonly position: string;
  /** Without an attempt, which differs from one call to the next. */
  readonly message: Omit<TransformMessage, 'attempt'>;
  readonly unreadable: string | undefined;
}

export function inputOf(delivery: Delivery, decode: Decode): Input {
  const { key, type, time, headers } = delivery;
  // All of a Kafka lane have them.
  const topic = delivery.topic!;
  const partition = delivery.partition!;
  const offset = delivery.offset!;
  const position = delivery.position!;
  let body: unknown;
  let unreadable: string | undefined;
  try {
    body = new LazyBody(delivery, decode).body;
  } catch (error) {
    unreadable = describeError(error);
  }
  const message = { topic, partition, offset, position, key, type, time, headers, body };
  return { delivery, offset, position, message, unreadable };
}
