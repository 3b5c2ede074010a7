import type { Unit } from './ports/store.ts';

/** The dead letter that a message comes from while it is sent through again. */
export interface LetterInHand {
  readonly id: string;
  /** What a letter about the message is written under, whatever id the message has by now: it is the same letter. */
  readonly dedupe: string;
  readonly revision: number;
}

/** The letter was closed, or somebody else is at it: the transaction that was to do it again must leave no trace. */
export class LetterGone extends Error {
  constructor() {
    super('the dead letter is closed, or somebody else sends it through again');
  }
}

type MayHaveLetter = { readonly letter: LetterInHand | undefined };

/** Nobody else can do anything with the letters of these until the transaction ends. */
export async function holdLetters(unit: Unit<unknown>, entries: readonly MayHaveLetter[]): Promise<void> {
  for (const { letter } of entries)
    if (letter !== undefined && !(await unit.holdLetter?.(letter.id))) throw new LetterGone();
}

/** In the transaction that does what they say. */
export async function closeLetters(unit: Unit<unknown>, done: Iterable<MayHaveLetter>): Promise<void> {
  for (const { letter } of done) if (letter !== undefined) await unit.closeLetter?.(letter.id);
}
