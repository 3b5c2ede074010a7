import { NevertwiceError } from './errors.ts';
import type { StoredLetter } from './ports/letters.ts';
import type { DeadLetter } from './ports/store.ts';

/** What of a message may be personal. */
export type LetterContent = Pick<DeadLetter, 'headers' | 'payload'>;

/**
 * What is stored of a message in a dead letter: encrypted, redacted, or left out. Both calls are synchronous. One that throws ends
 * the run, or the redrive, with NT_CONFIG: nothing is stored as it came, nothing is acked, and nothing is lost.
 */
export interface LetterSeal {
  seal(content: LetterContent): LetterContent;
  /** The inverse. Without it letters can be looked at and discarded, and not sent through again. */
  open?(content: LetterContent): LetterContent;
}

export function checkedSeal(given: LetterSeal | undefined): LetterSeal | undefined {
  if (given === undefined) return undefined;
  const { seal, open } = given;
  if (typeof seal === 'function' && (open === undefined || typeof open === 'function')) return given;
  throw new NevertwiceError('NT_CONFIG', 'letterSeal needs a function seal, and may have a function open');
}

export function sealed(
  letterSeal: LetterSeal | undefined,
  content: LetterContent,
): LetterContent & { readonly sealed: true | undefined } {
  if (letterSeal === undefined) return { ...content, sealed: undefined };
  return { ...called('seal', () => letterSeal.seal(content)), sealed: true };
}

/** A letter with its content as it came; undefined where nobody can open it. */
export function opened(letterSeal: LetterSeal | undefined, letter: StoredLetter): StoredLetter | undefined {
  if (letter.sealed !== true) return letter;
  if (letterSeal?.open === undefined) return undefined;
  const open = ({ headers, payload }: LetterContent) => called('open', () => letterSeal.open!({ headers, payload }));
  return { ...letter, ...open(letter), original: letter.original && open(letter.original) };
}

function called(what: 'seal' | 'open', call: () => LetterContent): LetterContent {
  try {
    const { headers, payload } = call();
    if (Array.isArray(headers) && payload instanceof Uint8Array) return { headers, payload };
  } catch (cause) {
    throw new NevertwiceError('NT_CONFIG', `letterSeal.${what} failed, so the dead letter was left as it was`, {
      cause,
    });
  }
  throw new NevertwiceError('NT_CONFIG', `letterSeal.${what} must return { headers, payload }, synchronously`);
}
