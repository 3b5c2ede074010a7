import { crc32 } from 'node:zlib';
import { NevertwiceError } from '../errors.ts';
import type { OutboxRow } from '../ports/outbox.ts';
import { encodePayload } from './payload.ts';

/** A message to be published once the transaction that adds it has committed. */
export interface OutboxMessage {
  /** Where it goes: a Kafka topic, or whatever the relay's destination takes it for. At most 255 bytes of UTF-8. */
  readonly topic: string;
  /**
   * Messages of one topic with the same key are published in the order of their commits; between keys, and without one,
   * nothing is promised. At most 1,024 bytes.
   */
  readonly key?: string;
  /**
   * The id that the next consumer tells copies by; at most 255 bytes. Default: in a handler derived from the consumer, the
   * incoming message's id, the topic and the how-manyth of that topic it is, so that it is the same at every redelivery; in
   * code of your own a new one.
   */
  readonly id?: string;
  /** Travel with the message. `message-id` is the relay's own. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Bytes as they are; anything else as JSON. What JSON would lose is refused with the name of the field. */
  readonly payload: unknown;
  /**
   * When a message of this id is waiting already: `keep` (default) leaves the one that waits and drops this one; `refuse`
   * rejects `add` with NT_OUTBOX_CLASH, and the transaction can go on. One that was published is not known any more: the
   * next consumer tells that copy by its id.
   */
  readonly onClash?: 'keep' | 'refuse';
}

/** Adds messages in the transaction at hand. */
export interface OutboxAdd {
  /**
   * Takes the message; it is written with the commit, and so published exactly when the rest of the transaction holds.
   * @throws NT_BAD_MESSAGE for what cannot be stored without loss, NT_OUTBOX_CLASH with `onClash: 'refuse'`
   */
  add(message: OutboxMessage): Promise<void>;
}

/** The header that carries the id. The default identity of a consumer reads it. */
export const ID_HEADER = 'message-id';

/** Checks a message and makes the row of it. `derive` gives the id where the message has none. */
export function rowOf(message: OutboxMessage, derive: (topic: string) => string): OutboxRow {
  if (typeof message !== 'object' || message === null) throw refused('the message', 'is no object');
  const { topic, key, headers, onClash = 'keep' } = message;
  assertText('topic', topic, 255);
  if (key !== undefined) assertText('key', key, 1_024);
  const id = message.id === undefined ? derive(topic) : message.id;
  assertText('id', id, 255);
  if (onClash !== 'keep' && onClash !== 'refuse') throw refused('onClash', "is neither 'keep' nor 'refuse'");
  const { json, bytes } = encodePayload(message.payload);
  return {
    topic,
    key,
    id,
    headers: headersText(headers),
    json,
    payload: bytes,
    hash: hashOf(topic, key ?? id),
    refuseClash: onClash === 'refuse',
  };
}

// NUL separates: neither has one. 31 bits, so that it is the same number in every language and database.
function hashOf(topic: string, key: string): number {
  return crc32(`${topic}\0${key}`) & 0x7fff_ffff;
}

function headersText(headers: OutboxMessage['headers']): string | undefined {
  if (headers === undefined) return undefined;
  if (typeof headers !== 'object' || headers === null) throw refused('headers', 'is no object');
  const entries = Object.entries(headers);
  for (const [name, value] of entries) {
    const field = `headers[${JSON.stringify(name)}]`;
    if (name === '') throw refused(field, 'has no name');
    if (name.toLowerCase() === ID_HEADER) throw refused(field, 'is the relay’s own; give the id as `id`');
    if (typeof value !== 'string')
      throw refused(field, `is ${value === null ? 'null' : `a ${typeof value}`} and no text`);
    if (!value.isWellFormed() || !name.isWellFormed()) throw refused(field, 'has half of a surrogate pair');
  }
  return entries.length === 0 ? undefined : JSON.stringify(headers);
}

function assertText(field: string, value: unknown, maxBytes: number): asserts value is string {
  if (typeof value !== 'string')
    throw refused(field, `is ${value === null ? 'null' : `a ${typeof value}`} and no text`);
  if (value === '') throw refused(field, field === 'key' ? 'is empty; leave it out for none' : 'is empty');
  if (value.includes('\0')) throw refused(field, 'holds a NUL, which databases and brokers do not agree on');
  if (!value.isWellFormed()) throw refused(field, 'has half of a surrogate pair, which no UTF-8 can hold');
  // A character has at most three bytes a unit.
  if (value.length * 3 <= maxBytes) return;
  const bytes = Buffer.byteLength(value);
  if (bytes > maxBytes) throw refused(field, `has ${bytes} bytes, more than ${maxBytes}`);
}

function refused(field: string, why: string): NevertwiceError {
  return new NevertwiceError('NT_BAD_MESSAGE', `outbox: ${field} ${why}`);
}
