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

/** Bytes read as UTF-8 without loss, or undefined when they are not UTF-8. A leading byte order mark stays. */
export function strictUtf8(bytes: Uint8Array): string | undefined {
  const text = utf8(bytes);
  // U+FFFD is the only trace that bad bytes leave, so nearly every text is done here: several times faster for short
  // values than a TextDecoder with `fatal`. A sender may also have meant a real U+FFFD: only that survives a round trip.
  if (!text.includes('\uFFFD')) return text;
  return Buffer.from(text, 'utf8').equals(bytes) ? text : undefined;
}
