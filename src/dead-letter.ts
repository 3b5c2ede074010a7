import { createHash } from 'node:crypto';
import { listHeaders } from './core/headers.ts';
import type { Entry } from './entry.ts';
import { errorChain, failureFingerprint, quotesAny } from './letter-errors.ts';
import { sealed } from './letter-seal.ts';
import type { Path } from './path.ts';
import type { Delivery } from './ports/delivery.ts';
import type { DeadLetter, LetterError } from './ports/store.ts';

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
    | 'behind'
    | 'quarantined';
  readonly reason: string;
  /** What was thrown, where something was. */
  readonly error?: unknown;
}

export function deadLetterFor({ policy }: Pick<Path, 'policy'>, entry: Entry, cause: Cause): DeadLetter {
  const { delivery } = entry;
  const payload = payloadOf(delivery);
  const bodies = [entry.message.body, delivery.body?.value, payload.length === 0 ? undefined : textOf(payload)];
  const errors = errorChain(cause.error, bodies);
  // What a Reject says its author chose to say; what an error says may be anything.
  const reason = cause.kind === 'attempts' && quotesAny(cause.reason, bodies) ? summary(errors) : cause.reason;
  return {
    messageId: entry.id,
    dedupe: dedupeOf(entry, cause, payload),
    kind: cause.kind,
    reason: reason.slice(0, 2_000),
    attempts: delivery.attempt - 1 + entry.failures,
    lane: delivery.lane,
    position: delivery.position,
    type: delivery.type,
    key: delivery.key,
    time: delivery.time,
    ...sealed(policy.letterSeal, { headers: listHeaders(delivery.headers), payload }),
    asJson: delivery.value === undefined && delivery.body !== undefined ? true : undefined,
    failure: failureFingerprint(cause.kind, reason, errors, [entry.id, delivery.key]),
    errors,
  };
}

function summary(errors: readonly LetterError[]): string {
  const [first] = errors;
  return first === undefined
    ? 'the handler failed'
    : [first.code, first.name, first.message].filter(Boolean).join(': ');
}

// Only to compare with: what is no text is not quoted as text.
function textOf(payload: Uint8Array): string {
  return Buffer.from(payload.buffer, payload.byteOffset, Math.min(payload.byteLength, 4_096)).toString('utf8');
}

/**
 * The same for every copy of one dead letter, so that a redelivery (its ack was lost) does not add a second row: the id;
 * with a conflict also the payload, since several wrong payloads may come; without an id the place it came from.
 */
function dedupeOf(entry: Entry, cause: Cause, payload: Uint8Array): string {
  if (entry.letter !== undefined) return entry.letter.dedupe;
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
