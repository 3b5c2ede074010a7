import { classifyFailure } from '../core/failures.ts';
import { isNevertwiceError, isOutage, NevertwiceError } from '../errors.ts';
import type { WaitingRow } from '../ports/outbox.ts';
import { ID_HEADER } from './row.ts';

/** A message as a relay hands it on. */
export interface PublishedMessage {
  /** The same at every repeat. */
  readonly id: string;
  readonly topic: string;
  readonly key: string | undefined;
  /** As they were added, and `message-id` with the id, which the next consumer reads by default. */
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Uint8Array;
  /** True when `payload` is JSON text. */
  readonly json: boolean;
  /** Rises within a key. After a failover that lost commits it may begin again a little lower. */
  readonly sequence: bigint;
  /** When it was added, by the store's clock. */
  readonly addedAt: Date;
  /** 1, or more where the destination refused it before. */
  readonly attempt: number;
}

export interface PublishContext {
  /** Aborts when the time for it is over, or a stop reaches its deadline. */
  readonly signal: AbortSignal;
  /** Which part of the outbox the messages are from: all of a key are in the same one. */
  readonly part: number;
}

/**
 * Where a relay publishes. Resolving says that the messages are there for good; what is not acknowledged comes again, so it
 * has to tell copies by their id, or to live with them.
 *
 * What a rejection means: `Reject` parks the message at once; `Unavailable`, an error of the network or of a database that is
 * down pauses the relay, and no try is counted; NT_BUSY and lost races are tried again later, uncounted; anything else is a
 * refused try of this message.
 */
export type Destination = {
  readonly name: string;
  close?(): Promise<void>;
} & (
  | { publish(message: PublishedMessage, context: PublishContext): unknown; readonly publishAll?: undefined }
  | {
      /**
       * All messages of a batch, in order. What resolves or rejects holds for all; of one key no later message may be there
       * without the earlier ones, also after a rejection.
       */
      publishAll(messages: readonly PublishedMessage[], context: PublishContext): Promise<void>;
      readonly publish?: undefined;
    }
);

/**
 * - `refused`: this message; a try is counted. `final` when no other try can help.
 * - `later`: nobody's fault; its key waits a little, uncounted.
 * - `down`: the destination; all wait, uncounted.
 */
export interface Failure {
  readonly kind: 'refused' | 'later' | 'down';
  readonly final: boolean;
  readonly error: unknown;
}

const LATER: ReadonlySet<string> = new Set(['NT_BUSY', 'NT_COMMIT_UNKNOWN', 'NT_LANE_LOST', 'NT_LEASE_LOST']);

export function failureFrom(error: unknown): Failure {
  if (isOutage(error)) return { kind: 'down', final: false, error };
  if (isNevertwiceError(error)) {
    if (LATER.has(error.code)) return { kind: 'later', final: false, error };
    if (error.code === 'NT_SOURCE_DOWN') return { kind: 'down', final: false, error };
    return { kind: 'refused', final: error.code === 'NT_REJECTED', error };
  }
  const failure = classifyFailure(error);
  if (failure === 'outage') return { kind: 'down', final: false, error };
  if (failure === 'transient' || failure === 'contended') return { kind: 'later', final: false, error };
  return { kind: 'refused', final: false, error };
}

/** It did not answer in time, so nobody knows whether it has the message. */
export function late(ms: number): Failure {
  const error = new NevertwiceError('NT_BUSY', `the destination did not answer within ${ms} ms`);
  return { kind: 'later', final: false, error };
}

export function messageFrom(row: WaitingRow): PublishedMessage {
  const given = row.headers === undefined ? {} : (JSON.parse(row.headers) as Record<string, string>);
  return {
    id: row.id,
    topic: row.topic,
    key: row.key,
    headers: { ...given, [ID_HEADER]: row.id },
    payload: row.payload,
    json: row.json,
    sequence: row.seq,
    addedAt: row.at,
    attempt: row.attempts + 1,
  };
}
