import { asBuffer, isBytes } from '../../../core/bytes.ts';
import { NevertwiceError } from '../../../errors.ts';
import type { ProducedRecord } from '../producer.ts';
import type { OutputRecord, Outputs } from './types.ts';

/** What a transform returned, as bytes. Throws NT_REJECTED for what is no record, without any of its content. */
export function recordsOf(outputs: Outputs): readonly ProducedRecord[] {
  if (outputs === undefined || outputs === null) return [];
  return (Array.isArray(outputs) ? outputs : [outputs]).map(recordOf);
}

function recordOf({ topic, partition, key, value, headers = {} }: OutputRecord): ProducedRecord {
  if (typeof topic !== 'string' || topic === '') refuse('without a topic');
  if (partition !== undefined && !(Number.isInteger(partition) && partition >= 0)) refuse('with a wrong partition');
  return {
    topic,
    partition,
    key: key === undefined || key === null ? null : bytesOf(key, 'key'),
    value: value === null ? null : bytesOf(value, 'value'),
    headers: Object.entries(headers).flatMap(([name, given]) =>
      (Array.isArray(given) ? given : [given]).map(one => [name, bytesOf(one, 'header')] as const),
    ),
  };
}

function bytesOf(value: unknown, what: string): Buffer {
  if (typeof value === 'string') return Buffer.from(value);
  if (isBytes(value)) return asBuffer(value);
  return refuse(`whose ${what} is neither text nor bytes`);
}

function refuse(why: string): never {
  throw new NevertwiceError('NT_REJECTED', `transform returned a record ${why}`);
}
