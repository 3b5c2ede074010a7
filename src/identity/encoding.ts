import { hash } from 'node:crypto';
import { asBuffer, strictUtf8 } from '../core/bytes.ts';

/** Rises when the same id would get another key, by `encodeKey` or by `joinParts`. Part of the identity signature. */
export const ENCODING_VERSION = 1;

/**
 * An id as the stores keep it: binary, short, compared byte by byte, the same in every database. A claim on it. Made when
 * asked for: where the position tells copies nobody asks, PostgreSQL takes the hex, and bytes for each message are work
 * for the garbage collector.
 */
export class EncodedKey {
  /** 16 bytes of the payload's fingerprint as lower-case hex, once it is known. */
  fingerprint: string | undefined = undefined;
  readonly #id: string;
  #hex: string | undefined;
  #key: Uint8Array | undefined;

  constructor(id: string) {
    this.#id = id;
  }

  /** The bytes as lower-case hex. */
  get hex(): string {
    this.#hex ??= hexOf(this.#id);
    return this.#hex;
  }

  get key(): Uint8Array {
    this.#key ??= Buffer.from(this.hex, 'hex');
    return this.#key;
  }
}

// The first byte says what follows, so keys of different kinds never meet and a new kind needs no migration.
const UUID = 0x01;
const UUID_HEX = '01';
const RAW = 0x02;
const DIGEST_HEX = '03';

// 256 bytes with the tag: far below the 2704 at which a PostgreSQL index refuses an incompressible key (C34).
const MAX_RAW_BYTES = 255;

const NOT_HEX = 0xff;
const NIBBLE = new Uint8Array(128).fill(NOT_HEX);
for (let n = 0; n < 16; n++) NIBBLE[n.toString(16).charCodeAt(0)] = n;

/**
 * The key of an id that has passed `toId`. Injective on well-formed text, up to collisions of SHA-256:
 *
 * | id | first byte | then | length |
 * |---|---|---|---|
 * | a UUID in lower case, 8-4-4-4-12 | 01 | its 16 bytes | 17 |
 * | up to 255 bytes of UTF-8 | 02 | those bytes | 2 … 256 |
 * | longer | 03 | their SHA-256 | 33 |
 *
 * A UUID in upper case or in braces is text like any other, byte-exact: `lowerCaseUuid` is there for those who want
 * them merged.
 */
export function encodeKey(id: string): EncodedKey {
  return new EncodedKey(id);
}

function hexOf(id: string): string {
  if (id.length === 36 && isUuid(id)) {
    return `${UUID_HEX}${id.slice(0, 8)}${id.slice(9, 13)}${id.slice(14, 18)}${id.slice(19, 23)}${id.slice(24)}`;
  }
  if (id.length <= MAX_RAW_BYTES) {
    // Three bytes a UTF-16 unit is the most there can be, so one write measures and encodes.
    const bytes = Buffer.allocUnsafe(1 + 3 * id.length);
    bytes[0] = RAW;
    const length = bytes.write(id, 1, 'utf8');
    if (length <= MAX_RAW_BYTES) return bytes.toString('hex', 0, 1 + length);
  }
  return `${DIGEST_HEX}${hash('sha256', id, 'hex')}`;
}

/** The id of a key, for people; undefined for a digest, whose id is not stored, and for what is no key. */
export function decodeKey(key: Uint8Array): string | undefined {
  if (key[0] === UUID && key.length === 17) {
    const hex = asBuffer(key).toString('hex', 1);
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }
  if (key[0] === RAW && key.length > 1 && key.length <= 1 + MAX_RAW_BYTES) return strictUtf8(key.subarray(1));
  return undefined;
}

// One pass over the text checks and converts it: a regular expression and Buffer.from(hex) each cost more than this.
function isUuid(id: string): boolean {
  for (let i = 0; i < 36; i += 2) {
    if (i === 8 || i === 13 || i === 18 || i === 23) {
      if (id.charCodeAt(i) !== 0x2d) return false;
      i++;
    }
    if ((nibbleAt(id, i) | nibbleAt(id, i + 1)) > 0x0f) return false;
  }
  return true;
}

function nibbleAt(text: string, i: number): number {
  return NIBBLE[text.charCodeAt(i)] ?? NOT_HEX;
}
