import { expect } from 'vitest';
import { type HeadersInput, headersFrom } from '../../src/core/headers.ts';
import { isNevertwiceError } from '../../src/errors.ts';
import type { BadId } from '../../src/identity/bad-id.ts';
import type { RawMessage } from '../../src/identity/identity.ts';

/** A delivery as an identity sees it, with what the test cares about. */
export function raw(fields: Partial<Omit<RawMessage, 'headers'>> & { headers?: HeadersInput } = {}): RawMessage {
  return { body: undefined, position: undefined, ...fields, headers: headersFrom(fields.headers) };
}

/** A delivery whose body cannot be decoded. */
export function unreadable(error: unknown, headers?: HeadersInput): RawMessage {
  return Object.defineProperty(raw({ headers }), 'body', {
    get() {
      throw error;
    },
  });
}

/** The BadId that `run` throws; anything else fails the test. */
export function badId(run: () => unknown): BadId {
  let answer: unknown;
  try {
    answer = run();
  } catch (error) {
    expect(error).toMatchObject({ name: 'BadId', code: 'NT_BAD_ID', retryable: false });
    expect(isNevertwiceError(error, 'NT_BAD_ID')).toBe(true);
    const { message } = error as BadId;
    expect(message).not.toContain('\n');
    expect(message).toContain('no usable id');
    return error as BadId;
  }
  throw new Error(`expected a BadId, got ${String(answer)}`);
}

export const bytes = (text: string): Buffer => Buffer.from(text, 'utf8');
