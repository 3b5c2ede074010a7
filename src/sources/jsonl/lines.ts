/** Where a line begins: what a position remembers. */
export interface Place {
  /** Bytes before it. */
  readonly offset: number;
  /** Line ends before it; its own number is one more. */
  readonly line: number;
}

/** A line without its line end: `buffer` from `from` to `to`. Valid until the next `push`. */
export interface Line {
  readonly start: Place;
  readonly buffer: Buffer;
  readonly from: number;
  readonly to: number;
  /** True when it is longer than was kept of it. */
  readonly tooLong: boolean;
}

const LF = 0x0a;
const EMPTY = Buffer.alloc(0);

/**
 * Cuts chunks into lines at 0x0A. Holds the chunk it is in and what of the line began in earlier ones, but never more
 * than `maxBytes` of that: the rest of a longer line is dropped as it passes.
 */
export class LineReader {
  readonly #maxBytes: number;
  #chunk: Buffer = EMPTY;
  #at = 0;
  /** What is kept of the begin of the current line that came in earlier chunks, and how long that begin really is. */
  #pieces: Buffer[] = [];
  #keptBytes = 0;
  #passedBytes = 0;
  #start: Place;

  constructor(maxBytes: number, start: Place) {
    this.#maxBytes = maxBytes;
    this.#start = start;
  }

  /** Where the first line begins that was not given out. */
  get place(): Place {
    return this.#start;
  }

  /** To be called only after `next` has said that it needs more. */
  push(chunk: Buffer): void {
    this.#chunk = chunk;
    this.#at = 0;
  }

  /** The next complete line, or undefined when that needs more bytes. */
  next(): Line | undefined {
    const end = this.#chunk.indexOf(LF, this.#at);
    if (end === -1) {
      this.#keep(this.#chunk.subarray(this.#at));
      this.push(EMPTY);
      return undefined;
    }
    const line = this.#line(this.#chunk, this.#at, end);
    const length = this.#passedBytes + end - this.#at;
    this.#start = { offset: line.start.offset + length + 1, line: line.start.line + 1 };
    this.#at = end + 1;
    if (this.#passedBytes > 0) this.#forget();
    return line;
  }

  /** Once there are no more bytes: what is left after the last line end, or undefined. Does not give it out. */
  rest(): Line | undefined {
    return this.#passedBytes === 0 ? undefined : this.#line(EMPTY, 0, 0);
  }

  /** Length of the rest, also of what was not kept of it. */
  get restBytes(): number {
    return this.#passedBytes;
  }

  /** Gives out the rest. The line that it is in goes on if more bytes are appended, so its number stays. */
  takeRest(): void {
    this.#start = { offset: this.#start.offset + this.#passedBytes, line: this.#start.line };
    this.#forget();
  }

  #line(buffer: Buffer, from: number, to: number): Line {
    const tooLong = this.#passedBytes + to - from > this.#maxBytes;
    if (this.#passedBytes === 0) {
      return { start: this.#start, buffer, from, to: tooLong ? from + this.#maxBytes : to, tooLong };
    }
    const joined = Buffer.concat([...this.#pieces, buffer.subarray(from, Math.min(to, from + this.#room))]);
    return { start: this.#start, buffer: joined, from: 0, to: joined.length, tooLong };
  }

  get #room(): number {
    return this.#maxBytes - this.#keptBytes;
  }

  // A copy, since the reader of a file uses one chunk over and over.
  #keep(piece: Buffer): void {
    const kept = Buffer.from(piece.subarray(0, this.#room));
    if (kept.length > 0) this.#pieces.push(kept);
    this.#keptBytes += kept.length;
    this.#passedBytes += piece.length;
  }

  #forget(): void {
    this.#pieces = [];
    this.#keptBytes = 0;
    this.#passedBytes = 0;
  }
}
