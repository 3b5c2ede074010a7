import { createHash } from 'node:crypto';
import { failureCode } from './core/failures.ts';
import { quotesBody } from './core/quoting.ts';
import type { LetterError } from './ports/store.ts';

const MOST_ERRORS = 8;
const MOST_FRAMES = 8;
const MOST_CHARACTERS = 500;

/**
 * An error and its causes, for a dead letter: bounded, and without anything that repeats the message's body, since letters are
 * listed and grouped by people who need not see it.
 *
 * @param bodies the body in the forms in which an error may quote it
 */
export function errorChain(error: unknown, bodies: readonly unknown[]): readonly LetterError[] {
  const chain: LetterError[] = [];
  const seen = new Set<unknown>();
  for (let e = error; e !== undefined && e !== null && chain.length < MOST_ERRORS && !seen.has(e); ) {
    seen.add(e);
    chain.push(one(e, bodies));
    e = typeof e === 'object' ? ((e as { cause?: unknown }).cause ?? firstOf(e)) : undefined;
  }
  return chain;
}

/** True when a text repeats some of the body. */
export function quotesAny(text: string, bodies: readonly unknown[]): boolean {
  return bodies.some(body => body !== undefined && quotesBody(text, body));
}

function one(error: unknown, bodies: readonly unknown[]): LetterError {
  if (!(error instanceof Error)) return { name: typeof error, message: 'not an Error: what was thrown is not kept' };
  const line = error.message.split('\n', 1)[0]!.slice(0, MOST_CHARACTERS);
  const frames = (error.stack ?? '')
    .split('\n')
    .filter(text => /^\s+at /.test(text))
    .slice(0, MOST_FRAMES)
    .map(text => text.trim().slice(0, MOST_CHARACTERS));
  const { code } = error as { code?: unknown };
  const known = typeof code === 'string' ? code : failureCode({ errcode: (error as { errcode?: unknown }).errcode });
  return {
    name: error.name.slice(0, 100),
    ...(known === undefined ? {} : { code: known.slice(0, 100) }),
    message: quotesAny(line, bodies) ? '(left out: it repeats some of the body)' : line,
    ...(frames.length === 0 ? {} : { frames }),
  };
}

function firstOf(error: object): unknown {
  return error instanceof AggregateError ? error.errors[0] : undefined;
}

/** What differs from one message to the next in a text: ids, numbers, quoted names. */
const VARYING =
  /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|"[^"]*"|'[^']*'|`[^`]*`|\b[0-9a-f]{8,}\b|\w*\d\w*/gi;

/** Shorter ones stand in any text. */
const TELLING = 3;

/**
 * 16 hex digits that are the same for failures of one kind. Frames are no part of it: a line that moves with a deployment would
 * tear a group apart.
 *
 * @param own what is this message's own, such as its id and key
 */
export function failureFingerprint(
  kind: string,
  reason: string,
  errors: readonly LetterError[],
  own: readonly (string | undefined)[],
): string {
  const words = own.filter(word => word !== undefined && word.length >= TELLING) as readonly string[];
  const template = (text: string) =>
    words.reduce((rest, word) => rest.replaceAll(word, '…'), text).replace(VARYING, '…');
  const parts =
    errors.length === 0
      ? [template(reason)]
      : errors.map(error => `${error.name}\0${error.code ?? ''}\0${template(error.message)}`);
  return createHash('sha256')
    .update([kind, ...parts].join('\n'))
    .digest('hex')
    .slice(0, 16);
}
