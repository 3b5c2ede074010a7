import { hash } from 'node:crypto';
import { asBuffer, isBytes } from '../core/bytes.ts';
import { BadId } from './bad-id.ts';
import { canonicalText } from './canonical.ts';
import { bodyOf, type Identity, identityOf, type RawMessage, toId } from './identity.ts';

/**
 * SHA-256 of the payload. **Loses real events:** content is not identity. Two orders of 250 by one customer within a
 * second have equal bodies; the second is dropped as a duplicate and 250 are missing from the books. Also doubles:
 * a producer that serialises the same event with other key order or white space makes a new id.
 *
 * Right only where an equal payload means "nothing new" for as long as the inbox remembers ids: a full snapshot of a
 * state, a cache invalidation. Hashes the bytes as they came; a delivery that has only a decoded body is hashed in its
 * canonical form. An empty payload is refused, since all of them are equal.
 */
export function contentHash(): Identity {
  const what = 'content hash';
  return identityOf('content-hash', raw => {
    const value = raw.value === undefined ? canonicalBody(raw, what) : raw.value;
    if (value.length === 0) throw new BadId('empty', what);
    return sha256(bytesOf(value, what));
  });
}

/**
 * SHA-256 over the record, the recipe of many Kafka tutorials: topic, partition, with `offset: true` the offset, key, value.
 * Hashed is the JSON that Go's `encoding/json` makes of a struct with the fields `Topic`, `Partition`, `Offset`, `Key` and
 * `Value`, in this order, bytes in base64, so that a consumer in Go with the same recipe has the same ids.
 *
 * - `offset: true` **misses copies.** The offset belongs to the arrival: a producer that sends again after a lost
 *   answer, a relay that publishes its row twice, a copy in a retry topic all get a new offset, so a new id, and the
 *   customer is charged twice. Only redeliveries of one and the same record are caught.
 * - `offset: false` **loses real events.** Two equal orders of one customer in one partition have one id, and the
 *   second is dropped. It still misses copies that arrive in another partition or topic, as after a change of the
 *   number of partitions.
 *
 * Both start over when a topic is recreated or mirrored under another name. Without an offset a record without a value
 * is refused, or every deletion of a key after the first would be dropped.
 */
export function recordHash(options: { readonly offset: boolean }): Identity {
  const withOffset = options.offset;
  const what = 'record hash';
  return identityOf(withOffset ? 'record-hash:go:offset' : 'record-hash:go', raw => {
    const { topic, partition, offset, key, value } = raw;
    if (topic === undefined || partition === undefined) throw missing(what, 'the source gives no topic and partition');
    if (withOffset && offset === undefined) throw missing(what, 'the source gives no offset');
    if (!withOffset && value === undefined) throw missing(what, 'the record has no value');
    const fields = [
      `"Topic":${goText(topic)}`,
      `"Partition":${partition}`,
      ...(withOffset ? [`"Offset":${offset}`] : []),
      `"Key":${goBytes(key)}`,
      `"Value":${goBytes(value === undefined ? undefined : bytesOf(value, what))}`,
    ];
    return sha256(Buffer.from(`{${fields.join(',')}}`));
  });
}

/**
 * Where the delivery stands: `payments/3/1042`. **Misses every copy that is another record**: a producer's resend, a
 * relay's second publish, a retry topic. **Loses real events** after a topic is recreated: it starts at offset 0 again
 * and new messages are taken for old ones. Right for a file that is only ever appended to, and for sources whose
 * records have no id at all while nobody sends twice.
 */
export function position(): Identity {
  return identityOf('position', raw => toId(raw.position, 'position'));
}

function missing(what: string, detail: string): BadId {
  return new BadId('missing', what, { detail });
}

function canonicalBody(raw: RawMessage, what: string): string {
  const body = bodyOf(raw, what);
  if (body === undefined || body === null) throw missing(what, 'the message has no body');
  try {
    return canonicalText(body);
  } catch (cause) {
    throw new BadId('unreadable-body', what, { cause });
  }
}

function bytesOf(value: Uint8Array | string, what: string): Uint8Array {
  if (isBytes(value)) return value;
  if (!value.isWellFormed()) throw new BadId('lone-surrogate', what);
  return Buffer.from(value, 'utf8');
}

// A nil slice is null, an empty one the empty text.
function goBytes(bytes: Uint8Array | undefined): string {
  return bytes === undefined ? 'null' : `"${asBuffer(bytes).toString('base64')}"`;
}

/** A text as Go writes it: like JSON.stringify, and what HTML or JavaScript could take for its own is escaped too. */
function goText(text: string): string {
  return JSON.stringify(text.toWellFormed()).replace(
    /[<>&\u2028\u2029]/g,
    found => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function sha256(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'hex');
}
