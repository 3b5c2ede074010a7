import { createHash } from 'node:crypto';
import { listHeaders } from './core/headers.ts';
import type { Entry } from './entry.ts';
import type { Delivery } from './ports/delivery.ts';
import type { DeadLetter } from './ports/store.ts';

/** Why a message is set aside, in one word and one sentence. */
export interface Cause {
  readonly kind:
    | 'bad-id'
    | 'bad-message'
    | 'unknown-type'
    | 'unreadable'
    | 'rejected'
    | 'attempts'
    | 'conflict'
    | 'behind';
  readonly reason: string;
}

export function deadLetterFor(entry: Entry, cause: Cause): DeadLetter {
  const { delivery } = entry;
  const payload = payloadOf(delivery);
  return {
    messageId: entry.id,
    dedupe: dedupeOf(entry, cause, payload),
    kind: cause.kind,
    reason: cause.reason.slice(0, 2_000),
    attempts: delivery.attempt - 1 + entry.failures,
    lane: delivery.lane,
    position: delivery.position,
    type: delivery.type,
    key: delivery.key,
    time: delivery.time,
    headers: listHeaders(delivery.headers),
    payload,
  };
}

/**
 * The same for every copy of one dead letter, so that a redelivery (its ack was lost) does not add a second row: the id;
 * with a conflict also the payload, since several wrong payloads may come; without an id the place it came from.
 */
function dedupeOf(entry: Entry, cause: Cause, payload: Uint8Array): string {
  if (entry.claim !== undefined && cause.kind !== 'conflict') return entry.claim.hex;
  const hash = createHash('sha256');
  hash.update(entry.claim?.hex ?? `${entry.delivery.lane}\0${entry.delivery.position ?? ''}`);
  if (cause.kind === 'conflict' || entry.delivery.position === undefined) hash.update('\0').update(payload);
  return `ff${hash.digest('hex')}`;
}

function payloadOf(delivery: Delivery): Uint8Array {
  if (delivery.value !== undefined)
    return typeof delivery.value === 'string' ? Buffer.from(delivery.value) : delivery.value;
  if (delivery.body === undefined) return new Uint8Array();
  return Buffer.from(jsonText(delivery.body.value));
}

// A body that came as a value has no bytes of its own; what JSON cannot say is marked rather than lost in silence.
function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}` : v)) ?? 'null';
  } catch {
    return JSON.stringify({ 'nevertwice:unserialisable': typeof value });
  }
}
