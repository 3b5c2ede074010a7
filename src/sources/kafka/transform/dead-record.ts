import { asBuffer } from '../../../core/bytes.ts';
import { headerPairs } from '../../../core/headers.ts';
import type { ProducedRecord } from '../producer.ts';
import type { Input } from './input.ts';

/** Why a record was set aside, in one word and one sentence. */
export interface Cause {
  readonly kind: 'bad-message' | 'rejected' | 'attempts';
  readonly reason: string;
  /** Calls of the transform that failed. */
  readonly attempts: number;
}

/**
 * The record as it came, with what is to be known about it in headers: `nevertwice-kind`, `-reason`, `-position`
 * (`topic/partition/offset`), `-attempts` and `-time`, the record's own timestamp in ISO 8601.
 */
export function deadRecord(topic: string, { delivery, position }: Input, cause: Cause): ProducedRecord {
  const { keyBytes, value, time } = delivery;
  const about = {
    kind: cause.kind,
    reason: cause.reason.slice(0, 2_000),
    position,
    attempts: String(cause.attempts),
    ...(time === undefined ? {} : { time: time.toISOString() }),
  };
  return {
    topic,
    partition: undefined,
    key: keyBytes === undefined ? null : asBuffer(keyBytes),
    value: value === undefined ? null : bytes(value),
    headers: [
      ...headerPairs(delivery.headers).map(([name, header]) => [name, bytes(header)] as const),
      ...Object.entries(about).map(([name, text]) => [`nevertwice-${name}`, Buffer.from(text)] as const),
    ],
  };
}

function bytes(value: string | Uint8Array): Buffer {
  return typeof value === 'string' ? Buffer.from(value) : asBuffer(value);
}
