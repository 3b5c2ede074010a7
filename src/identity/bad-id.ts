import { NevertwiceError } from '../errors.ts';

/**
 * Why a message has no usable id. A closed set, for counting and branching.
 *
 * | reason | what was found |
 * |---|---|
 * | missing | nothing: the header, body path or part is absent, undefined or null |
 * | empty | the empty text, or white space only |
 * | ambiguous | several values that differ |
 * | unsafe-number | a number beyond ±(2^53 − 1), which JSON.parse may have rounded |
 * | not-an-integer | a fraction, NaN or Infinity |
 * | wrong-type | a boolean, object, array, promise … |
 * | nul | U+0000, which text columns cannot hold |
 * | not-utf8 | bytes that are not UTF-8 |
 * | lone-surrogate | half of a surrogate pair, which every UTF-8 encoder turns into the same U+FFFD |
 * | too-long | more than 8192 bytes of UTF-8 |
 * | unreadable-body | the id is in the body, and the body cannot be decoded |
 * | extractor-threw | the identity function itself failed; the `cause` says how |
 */
export type BadIdReason = keyof typeof ADVICE;

// What is wrong, and what to do about it.
const ADVICE = {
  missing: ['has no value', 'have the producer send one, or choose another identity'],
  empty: ['is empty or only white space', 'have the producer send a real id'],
  ambiguous: ['has several different values', 'send exactly one'],
  'unsafe-number': [
    'is a number beyond 2^53 - 1, where different ids become equal',
    'send it as a string, or decode the body without loss',
  ],
  'not-an-integer': ['is a number but not an integer', 'send an integer or a string'],
  'wrong-type': ['has the wrong type', 'send a string, an integer, a bigint or UTF-8 bytes'],
  nul: ['contains a NUL character', 'remove it at the producer'],
  'not-utf8': ['is bytes that are not UTF-8', 'send text, or encode the bytes as hex or base64'],
  'lone-surrogate': ['contains half of a surrogate pair', 'send well-formed Unicode'],
  'too-long': ['is too long', 'send a shorter id, or a digest of this one'],
  'unreadable-body': ['cannot be read, since the body cannot be', 'repair the producer or the decoder'],
  'extractor-threw': ['threw', 'make it return an id or throw BadId'],
} as const;

/**
 * The message has no usable id (`NT_BAD_ID`, not retryable): it becomes a dead letter before the handler and is never
 * merged with another. The text names the extractor, the reason and the remedy, never the value.
 */
export class BadId extends NevertwiceError {
  readonly reason: BadIdReason;

  /**
   * @param what the place that was looked at, for people: `header "message-id"`
   * @param detail a few words more, without any of the message's content
   */
  constructor(reason: BadIdReason, what: string, options?: { detail?: string; cause?: unknown }) {
    const [problem, remedy] = ADVICE[reason];
    const detail = options?.detail === undefined ? '' : ` (${options.detail})`;
    super('NT_BAD_ID', `${what} ${problem}${detail}, so the message has no usable id; ${remedy}`, options);
    this.name = 'BadId';
    this.reason = reason;
  }
}
