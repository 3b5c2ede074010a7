import { CompletedSegment, ROWS, ROWS_BITS } from './completed-segment.ts';
import type { KeyBits } from './key-bits.ts';
import { NONE, SlotIndex, type Slots } from './slot-index.ts';

/** What is kept of a completed id. */
export interface Completed {
  readonly at: number;
  readonly fingerprint: string | undefined;
  readonly result: unknown;
}

// Slots are counted modulo 2³⁰, so that one more fits a cell of the index; that many at once would be 50 GB.
const SLOTS = 2 ** 30;
const MASK = SLOTS - 1;

/**
 * The completed ids in order of completion, outside the heap: a queue of segments, and an index into it. An id is kept
 * for two weeks; as an object it was 470 bytes that the garbage collector first copied twice, in pauses of 10 to 20 ms,
 * and then walked over in every full round. Here it is 46 bytes that it never sees, 62 with a fingerprint.
 */
export class CompletedTable implements Slots {
  readonly #index = new SlotIndex(this);
  /** From that of `#head` to that of the last slot. */
  readonly #segments: CompletedSegment[] = [];
  /** The last one that was emptied, for the next that is needed: where one is removed for each that is added, all. */
  #spare: CompletedSegment | undefined;
  /** The oldest id's, or `#tail` where there is none. */
  #head: number;
  /** The next id's. */
  #tail: number;

  /** @param firstSlot for tests of what happens at the last one */
  constructor(firstSlot = 0) {
    this.#head = firstSlot;
    this.#tail = firstSlot;
  }

  get size(): number {
    return this.#index.size;
  }

  /** When the oldest was completed. */
  get oldestAt(): number | undefined {
    return this.size === 0 ? undefined : this.#segmentOf(this.#head).at(this.#head % ROWS);
  }

  get(key: KeyBits): Completed | undefined {
    const slot = this.#index.find(key);
    if (slot === NONE) return undefined;
    const segment = this.#segmentOf(slot);
    const row = slot % ROWS;
    return { at: segment.at(row), fingerprint: segment.fingerprint(row), result: segment.result(row) };
  }

  /** As the newest. The key must not be there. */
  add(key: KeyBits, at: number, fingerprint: string | undefined, result: unknown): void {
    const slot = this.#tail;
    if (this.#numberOf(slot) === this.#segments.length) this.#addSegment();
    const segment = this.#segmentOf(slot);
    this.#index.add(slot, key.hash);
    segment.write(slot % ROWS, key, at, fingerprint, result);
    this.#tail = (slot + 1) & MASK;
  }

  delete(key: KeyBits): void {
    const slot = this.#index.find(key);
    if (slot !== NONE) this.#remove(slot);
  }

  deleteOldest(): void {
    if (this.size > 0) this.#remove(this.#head);
  }

  /** When each was completed, the oldest first. */
  *times(): Iterable<number> {
    for (let slot = this.#head; slot !== this.#tail; slot = (slot + 1) & MASK) {
      const segment = this.#segmentOf(slot);
      if (!segment.isEmpty(slot % ROWS)) yield segment.at(slot % ROWS);
    }
  }

  holds(slot: number, key: KeyBits): boolean {
    return this.#segmentOf(slot).holds(slot % ROWS, key);
  }

  #remove(slot: number): void {
    const segment = this.#segmentOf(slot);
    this.#index.remove(slot, segment.hash(slot % ROWS));
    segment.clear(slot % ROWS);
    while (this.#head !== this.#tail && this.#segmentOf(this.#head).isEmpty(this.#head % ROWS)) {
      this.#head = (this.#head + 1) & MASK;
      if (this.#head % ROWS === 0) this.#spare = this.#segments.shift();
    }
  }

  #addSegment(): void {
    this.#segments.push(this.#spare ?? new CompletedSegment());
    this.#spare = undefined;
  }

  #segmentOf(slot: number): CompletedSegment {
    return this.#segments[this.#numberOf(slot)]!;
  }

  #numberOf(slot: number): number {
    const start = this.#head - (this.#head % ROWS);
    return ((slot - start) & MASK) >>> ROWS_BITS;
  }
}
