import { hash } from 'node:crypto';
import { canonicalText } from './canonical.ts';

// Hex digits of 16 bytes. A fingerprint only has to tell apart the few payloads that come with one id.
const DIGITS = 32;

/**
 * What a decoded body says, as 32 hex digits: the first 16 bytes of the SHA-256 of its canonical form. Two copies of a
 * message with the same id and different fingerprints are a `conflict`.
 *
 * The order of keys does not matter, the order of arrays does, 1 and "1" differ, a property that is undefined equals an
 * absent one, and Date, bigint, bytes, Map and Set differ from plain values that look like them: `canonicalText` has
 * the whole table. Numbers that JSON.parse rounded to one are one; `fingerprintOfBytes` tells them apart.
 *
 * @throws NevertwiceError NT_BAD_MESSAGE, naming the path, for a body that refers back to itself or is nested too deep
 */
export function fingerprintOf(value: unknown): string {
  return hash('sha256', canonicalText(value), 'hex').slice(0, DIGITS);
}

/**
 * The fingerprint of a body as it came, for bodies that are not decoded. A text and its UTF-8 bytes are the same;
 * anything else that changes a byte, such as white space or key order in JSON, makes another fingerprint.
 */
export function fingerprintOfBytes(value: Uint8Array | string): string {
  return hash('sha256', value, 'hex').slice(0, DIGITS);
}
