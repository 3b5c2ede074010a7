import { hash } from 'node:crypto';
import { joinParts } from '../identity/join.ts';

/**
 * The id of the n-th message of a topic that the handler of one incoming message adds: a UUID (version 8) out of a hash, the
 * same in every process and at every redelivery.
 *
 * By topic, so that a handler that comes to add to another topic as well leaves the ids of the first as they are.
 */
export function derivedId(consumer: string, messageId: string, topic: string, nth: number): string {
  const bytes = hash('sha256', joinParts(['outbox', consumer, messageId, topic, String(nth)]), 'buffer');
  bytes[6] = (bytes[6]! & 0x0f) | 0x80;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString('hex', 0, 16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
