import { isBytes, strictUtf8 } from '../core/bytes.ts';
import { isNevertwiceError, NevertwiceError } from '../errors.ts';
import type { Headers } from '../ports/delivery.ts';
import { BadId } from './bad-id.ts';
import { ENCODING_VERSION } from './encoding.ts';
import { joinParts } from './join.ts';

/** What an identity may look at: one delivery, with its body decoded only when asked for. */
export interface RawMessage {
  readonly headers: Headers;
  /** The decoded body. Reading it decodes it, and throws when that fails. */
  readonly body: unknown;
  /** Where the delivery stands in its source. Differs between copies of one message. */
  readonly position: string | undefined;
  readonly topic?: string | undefined;
  readonly partition?: number | undefined;
  readonly offset?: bigint | undefined;
  readonly key?: Uint8Array | undefined;
  /** The body as it came. */
  readonly value?: Uint8Array | string | undefined;
  /** The id that the broker gave, where it gives one. */
  readonly brokerId?: string | undefined;
}

/**
 * How a message gets its id: a pure, synchronous function that says the same for every copy of a message and something
 * else for every other message. What it returns is checked by `checkedId` whoever wrote it.
 */
export interface Identity {
  (raw: RawMessage): string;
  /** A stable name of how ids are made. Stored with the consumer: a start with another one is refused. */
  readonly signature: string;
}

/** Maps different spellings of one id to one, before the key is built. `signature` names it in the identity signature. */
export interface Normaliser {
  (id: string): string;
  readonly signature: string;
}

/** The longest id, in bytes of UTF-8. Longer ones are refused and never cut. */
export const MAX_ID_BYTES = 8192;

/** Gives an identity function its signature. */
export function identityOf(signature: string, extract: (raw: RawMessage) => string): Identity {
  return Object.assign(extract, { signature });
}

/**
 * A value as an id, byte-exact: nothing is trimmed, folded or normalised. Accepts a string, a bigint and a safe integer
 * (their decimal text, -0 as "0") and UTF-8 bytes. So the number 7, the text "7" and the byte 0x37 are the same id, in
 * every store: which of them arrives depends on the client, not on the event.
 *
 * @param what the place the value was taken from, for the error: `header "message-id"`
 * @throws BadId for anything else
 */
export function toId(value: unknown, what: string): string {
  return checkText(textOf(value, what), what);
}

/**
 * Several values for one id: copies of one value are that value; values that differ, even by white space or by being
 * empty, are `ambiguous`, since taking the first or the last makes the id depend on the client.
 */
export function toOneId(values: readonly unknown[], what: string): string {
  if (values.length === 0) throw new BadId('missing', what);
  const first = textOf(values[0], what);
  for (let i = 1; i < values.length; i++) {
    if (textOf(values[i], what) !== first) throw new BadId('ambiguous', what);
  }
  return checkText(first, what);
}

/** The decoded body. @throws BadId `unreadable-body`, with the decoder's error as its cause */
export function bodyOf(raw: RawMessage, what: string): unknown {
  try {
    return raw.body;
  } catch (cause) {
    throw new BadId('unreadable-body', what, { cause });
  }
}

/**
 * The id of a message as the path uses it: runs the identity, checks what it returned, applies the normaliser and
 * checks again.
 *
 * @throws BadId, always and only: what a user's own function threw is its `cause`
 */
export function checkedId(identity: Identity, raw: RawMessage, normalise?: Normaliser): string {
  let value: unknown;
  try {
    value = identity(raw);
  } catch (error) {
    throw isNevertwiceError(error, 'NT_BAD_ID') ? error : extractorThrew(error, identity, raw);
  }
  if (value instanceof Promise) {
    // Refused by `toId` as no id. Its rejection is answered here, or a message would end the process.
    value.catch(() => undefined);
  }
  const id = toId(value, nameOf(identity));
  if (normalise === undefined) return id;
  let normal: unknown;
  try {
    normal = normalise(id);
  } catch (cause) {
    throw new BadId('extractor-threw', `normaliser ${normalise.signature}`, { cause });
  }
  return normal === id ? id : toId(normal, `normaliser ${normalise.signature}`);
}

/**
 * How a consumer's ids are made, in one text that changes whenever the same message could get another key: extractor,
 * normaliser, version of the encodings.
 *
 * @throws NevertwiceError NT_CONFIG when the identity or the normaliser has no signature
 */
export function identitySignature(identity: Identity, normaliser?: Normaliser): string {
  const parts = normaliser === undefined ? [identity.signature, 'as-is'] : [identity.signature, normaliser.signature];
  if (parts.some(part => typeof part !== 'string' || part === '')) {
    throw new NevertwiceError(
      'NT_CONFIG',
      'the identity or its normaliser has no `signature`, so a change of how ids are made would go unseen; ' +
        'build it with naturalKey(fn, { name }), or set a non-empty `signature` on the function',
    );
  }
  return joinParts([...parts, `v${ENCODING_VERSION}`]);
}

function extractorThrew(cause: unknown, identity: Identity, raw: RawMessage): BadId {
  const what = nameOf(identity);
  try {
    bodyOf(raw, what);
  } catch (unreadable) {
    return unreadable as BadId;
  }
  return new BadId('extractor-threw', what, { cause, detail: cause instanceof Error ? cause.name : typeof cause });
}

function nameOf(identity: Identity): string {
  return `identity ${identity.signature}`;
}

function textOf(value: unknown, what: string): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') {
    if (Number.isSafeInteger(value)) return String(value);
    throw new BadId(Number.isInteger(value) ? 'unsafe-number' : 'not-an-integer', what);
  }
  if (typeof value === 'bigint') return String(value);
  if (isBytes(value)) {
    const text = strictUtf8(value);
    if (text === undefined) throw new BadId('not-utf8', what);
    return text;
  }
  if (value === undefined || value === null) throw new BadId('missing', what, { detail: String(value) });
  const detail = value instanceof Promise ? 'a promise' : Array.isArray(value) ? 'an array' : typeof value;
  throw new BadId('wrong-type', what, { detail });
}

function checkText(id: string, what: string): string {
  // One UTF-16 unit is at most three bytes of UTF-8, so ids of ordinary length are not measured.
  if (id.length > MAX_ID_BYTES / 3) {
    const bytes = Buffer.byteLength(id, 'utf8');
    if (bytes > MAX_ID_BYTES) {
      throw new BadId('too-long', what, { detail: `${bytes} bytes of UTF-8, the limit is ${MAX_ID_BYTES}` });
    }
  }
  if (id.trim() === '') throw new BadId('empty', what);
  if (id.includes('\0')) throw new BadId('nul', what);
  if (!id.isWellFormed()) throw new BadId('lone-surrogate', what);
  return id;
}
