import { isAscii } from 'node:buffer';

/**
 * True for `Uint8Array` and `Buffer`, also for one from another realm: test runners that sandbox globals make
 * `instanceof` say no to a real Buffer.
 */
export function isBytes(value: unknown): value is Uint8Array {
  if (value instanceof Uint8Array) return true;
  return ArrayBuffer.isView(value) && (value as Partial<Uint8Array>)[Symbol.toStringTag] === 'Uint8Array';
}

/** The same memory as a Buffer, not a copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Bytes read as UTF-8; what is not UTF-8 becomes U+FFFD. A leading byte order mark stays, unlike with `TextDecoder`. */
export function utf8(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('utf8');
}

// Not the default, which swallows a leading byte order mark and so merges two ids.
const STRICT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The text of bytes that are all ASCII, as most are; undefined otherwise. Twice as fast as a strict decoder. */
export function ascii(bytes: Uint8Array): string | undefined {
  return isAscii(bytes) ? asBuffer(bytes).toString('latin1') : undefined;
}

/** Bytes read as UTF-8 without loss, or undefined when they are not UTF-8. A leading byte order mark stays. */
export function strictUtf8(bytes: Uint8Array): string | undefined {
  const text = ascii(bytes);
  if (text !== undefined) return text;
  try {
    return STRICT.decode(bytes);
  } catch {
    return undefined;
  }
}
