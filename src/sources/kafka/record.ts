import { strictUtf8 } from '../../core/bytes.ts';
import { headersFrom } from '../../core/headers.ts';
import type { WindowEntry } from '../../core/offset-window.ts';
import type { Delivery } from '../../ports/delivery.ts';
import type { KafkaRecord, TopicPartition } from './client.ts';

/** A record as its lane hands it out. */
export interface KafkaDelivery extends Delivery {
  /** Its place in the lane. Here, because a weak map over all deliveries costs the garbage collector several times that. */
  readonly entry: WindowEntry;
}

/** A record as a delivery. Kafka does not count how often it hands one over, so `attempt` is 1. */
export function deliveryOf(
  record: KafkaRecord,
  entry: WindowEntry,
  lane: string,
  at: TopicPartition,
  typeHeader: string,
): KafkaDelivery {
  const headers = headersFrom(record.headers);
  const { key, value, offset, timestampMs, leaderEpoch } = record;
  return {
    lane,
    position: `${lane}/${offset}`,
    attempt: 1,
    headers,
    key: key === null ? undefined : (strictUtf8(key) ?? `base64:${Buffer.from(key).toString('base64')}`),
    type: headers.get(typeHeader),
    time: timestampMs === undefined ? undefined : new Date(timestampMs),
    value: value ?? undefined,
    // A tombstone is a message that says "gone", and not one whose body was lost.
    body: value === null ? { value: null } : undefined,
    topic: at.topic,
    partition: at.partition,
    offset,
    leaderEpoch,
    keyBytes: key ?? undefined,
    entry,
  };
}
