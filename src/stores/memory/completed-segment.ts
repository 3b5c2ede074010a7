import { hexOfWords, type KeyBits, readWords } from './key-bits.ts';

export const ROWS_BITS = 10;

/** How many ids a segment holds: 29 KB, and 16 KB more for fingerprints. */
export const ROWS = 1 << ROWS_BITS;

/** Four words of the key, then its hash. */
const WORDS = 5;

// Flags of a row. One without any is empty.
const USED = 1;
const EXACT = 2;
const PRINTED = 4;

/** A row for each completed id, outside the heap. Only results are on it, where there are any. */
export class CompletedSegment {
  readonly #keys = new Int32Array(WORDS * ROWS);
  readonly #at = new Float64Array(ROWS);
  readonly #flags = new Uint8Array(ROWS);
  #fingerprints: Int32Array | undefined;
  #results: unknown[] | undefined;

  write(row: number, key: KeyBits, at: number, fingerprint: string | undefined, result: unknown): void {
    for (let i = 0; i < 4; i++) this.#keys[WORDS * row + i] = key.words[i]!;
    this.#keys[WORDS * row + 4] = key.hash;
    this.#at[row] = at;
    this.#flags[row] = USED | (key.exact ? EXACT : 0) | (fingerprint === undefined ? 0 : PRINTED);
    if (fingerprint !== undefined) {
      this.#fingerprints ??= new Int32Array(4 * ROWS);
      readWords(fingerprint, 0, this.#fingerprints, 4 * row);
    }
    if (result !== undefined) {
      this.#results ??= new Array<unknown>(ROWS);
      this.#results[row] = result;
    }
  }

  clear(row: number): void {
    this.#flags[row] = 0;
    if (this.#results !== undefined) this.#results[row] = undefined;
  }

  isEmpty(row: number): boolean {
    return this.#flags[row] === 0;
  }

  holds(row: number, { words, exact }: KeyBits): boolean {
    for (let i = 0; i < 4; i++) if (this.#keys[WORDS * row + i] !== words[i]) return false;
    return ((this.#flags[row]! & EXACT) !== 0) === exact;
  }

  hash(row: number): number {
    return this.#keys[WORDS * row + 4]!;
  }

  at(row: number): number {
    return this.#at[row]!;
  }

  fingerprint(row: number): string | undefined {
    const printed = (this.#flags[row]! & PRINTED) !== 0;
    return printed && this.#fingerprints !== undefined ? hexOfWords(this.#fingerprints, 4 * row) : undefined;
  }

  result(row: number): unknown {
    return this.#results?.[row];
  }
}
