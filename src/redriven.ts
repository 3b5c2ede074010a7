import { createHash } from 'node:crypto';
import { headersFrom } from './core/headers.ts';
import type { Entry } from './entry.ts';
import { isNevertwiceError } from './errors.ts';
import { identify, idOf } from './identify.ts';
import { identityOf } from './identity/identity.ts';
import { sealed } from './letter-seal.ts';
import type { Path } from './path.ts';
import type { Delivery } from './ports/delivery.ts';
import type { LetterEdit, StoredLetter } from './ports/letters.ts';
import type { DeadLetter } from './ports/store.ts';

/** The message of a dead letter, on its way through the path once more. */
/** `letter` is open: see `opened`. */
export async function entryOf(path: Path, letter: StoredLetter): Promise<Entry> {
  const [entry] = await identify(identifiedLike(path, letter), [deliveryOf(letter, letter)]);
  const { id, dedupe, revision } = letter;
  return { ...entry!, claim: withRevision(entry!.claim, revision), letter: { id, dedupe, revision } };
}

/** As it came from its source, as far as a letter keeps that. */
function deliveryOf(letter: StoredLetter, { headers, payload }: Pick<DeadLetter, 'headers' | 'payload'>): Delivery {
  const { lane, position, attempts, key, type, time } = letter;
  return {
    lane,
    position,
    attempt: attempts + 1,
    headers: headersFrom(headers.map(([name, value]) => [name, sent(value)] as const)),
    key,
    type,
    time,
    ...bodyOf(payload, letter.asJson === true),
  };
}

function bodyOf(payload: Uint8Array, asJson: boolean): Pick<Delivery, 'value' | 'body'> {
  if (!asJson) return { value: payload };
  try {
    return { body: { value: JSON.parse(Buffer.from(payload).toString('utf8')) } };
  } catch {
    // Changed by hand into something else: decoding it says what is wrong.
    return { value: payload };
  }
}

const BASE64 = 'base64:';

/** The bytes behind what `listHeaders` could not write as text. */
function sent(value: string): string | Uint8Array {
  return value.startsWith(BASE64) ? Buffer.from(value.slice(BASE64.length), 'base64') : value;
}

/**
 * The id is the one that the message had when it was set aside, however it was made: of what its source knew alone, such as a
 * position, nothing is left to make it from. Where it can be made from the letter, headers or a body that a person has changed
 * may give it another one.
 */
function identifiedLike(path: Path, letter: StoredLetter): Path {
  const { messageId } = letter;
  if (messageId === undefined || made(path, deliveryOf(letter, letter.original ?? letter)) === messageId) return path;
  return { ...path, identity: identityOf('as set aside', () => messageId) };
}

function made(path: Path, delivery: Delivery): string | undefined {
  try {
    return idOf(path, delivery);
  } catch (error) {
    if (!isNevertwiceError(error)) throw error;
    return undefined;
  }
}

/** A message that a person has changed is not the one that came: its fingerprint says so even where the bodies are equal. */
function withRevision(claim: Entry['claim'], revision: number): Entry['claim'] {
  if (claim?.fingerprint === undefined || revision === 0) return claim;
  const fingerprint = createHash('sha256')
    .update(`${claim.fingerprint}\0revision ${revision}`)
    .digest('hex')
    .slice(0, 32);
  return { key: claim.key, hex: claim.hex, fingerprint };
}

/** What a person wants changed: a header by name (null removes it), and the body. */
export interface MessageEdit {
  readonly headers?: Readonly<Record<string, string | null>> | undefined;
  readonly body?: Uint8Array | string | undefined;
}

/**
 * The edit in a letter's own terms: a header that is given takes the place of all of its name. `letter` is open, and the edit is
 * sealed again where the letter was.
 */
export function letterEdit({ policy }: Path, letter: StoredLetter, { headers, body }: MessageEdit): LetterEdit {
  const edit = {
    headers: headers === undefined ? undefined : withHeaders(letter.headers, headers),
    payload: typeof body === 'string' ? Buffer.from(body) : body,
  };
  if (letter.sealed !== true) return edit;
  const { headers: sealedHeaders, payload } = sealed(policy.letterSeal, {
    headers: edit.headers ?? letter.headers,
    payload: edit.payload ?? letter.payload,
  });
  return { headers: sealedHeaders, payload };
}

function withHeaders(
  before: DeadLetter['headers'],
  changes: Readonly<Record<string, string | null>>,
): DeadLetter['headers'] {
  const changed = new Set(Object.keys(changes).map(name => name.toLowerCase()));
  const added = Object.entries(changes).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const]));
  return [...before.filter(([name]) => !changed.has(name.toLowerCase())), ...added];
}
