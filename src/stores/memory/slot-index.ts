import type { KeyBits } from './key-bits.ts';

/** What the slots are of. */
export interface Slots {
  holds(slot: number, key: KeyBits): boolean;
}

/** No slot. */
export const NONE = -1;

/** Cells of a part. */
const SMALLEST = 16;

/** With 64, one that grows takes 0.5 ms among a million ids and 3 ms among six million; all in one took 33 and 150 or more. */
const PARTS_BITS = 6;

/** Finds slots by key. In parts, by the first bits of the hash, each of which grows on its own. */
export class SlotIndex {
  readonly #parts: readonly Part[];
  #size = 0;

  constructor(slots: Slots) {
    this.#parts = Array.from({ length: 1 << PARTS_BITS }, () => new Part(slots));
  }

  get size(): number {
    return this.#size;
  }

  find(key: KeyBits): number {
    return this.#partOf(key.hash).find(key);
  }

  add(slot: number, hash: number): void {
    this.#partOf(hash).add(slot, hash);
    this.#size++;
  }

  /** `slot` must be there. */
  remove(slot: number, hash: number): void {
    this.#partOf(hash).remove(slot, hash);
    this.#size--;
  }

  #partOf(hash: number): Part {
    return this.#parts[hash >>> (32 - PARTS_BITS)]!;
  }
}

/**
 * Open addressing by the last bits of the hash. A cell is two numbers, slot + 1 (0 where it is empty) and the hash: with
 * the hash beside it a cell that is not meant is passed over without a look at its slot, which would be a cache miss, and
 * a change of size touches no slot.
 *
 * At least one cell in four is empty. A removal moves back what comes after it and leaves no tombstone, since in a full
 * table one is removed for each that is added.
 */
class Part {
  readonly #slots: Slots;
  #size = 0;
  #mask = SMALLEST - 1;
  #cells = new Int32Array(2 * SMALLEST);

  constructor(slots: Slots) {
    this.#slots = slots;
  }

  find(key: KeyBits): number {
    for (let cell = key.hash & this.#mask; this.#cells[2 * cell] !== 0; cell = (cell + 1) & this.#mask) {
      if (this.#cells[2 * cell + 1] !== key.hash) continue;
      const slot = this.#cells[2 * cell]! - 1;
      if (this.#slots.holds(slot, key)) return slot;
    }
    return NONE;
  }

  add(slot: number, hash: number): void {
    if (4 * (this.#size + 1) > 3 * (this.#mask + 1)) this.#resize(2 * (this.#mask + 1));
    this.#size++;
    this.#put(slot + 1, hash);
  }

  remove(slot: number, hash: number): void {
    const cells = this.#cells;
    const mask = this.#mask;
    let hole = hash & mask;
    while (cells[2 * hole] !== slot + 1) hole = (hole + 1) & mask;
    for (let cell = (hole + 1) & mask; cells[2 * cell] !== 0; cell = (cell + 1) & mask) {
      // What is nearer to its home than to the hole would be put before its home, where no search begins.
      const home = cells[2 * cell + 1]! & mask;
      if (((cell - home) & mask) < ((cell - hole) & mask)) continue;
      cells[2 * hole] = cells[2 * cell]!;
      cells[2 * hole + 1] = cells[2 * cell + 1]!;
      hole = cell;
    }
    cells[2 * hole] = 0;
    this.#size--;
    if (8 * this.#size < mask && mask >= SMALLEST) this.#resize((mask + 1) / 2);
  }

  #resize(cells: number): void {
    const old = this.#cells;
    this.#cells = new Int32Array(2 * cells);
    this.#mask = cells - 1;
    for (let i = 0; i < old.length; i += 2) {
      if (old[i] !== 0) this.#put(old[i]!, old[i + 1]!);
    }
  }

  #put(entry: number, hash: number): void {
    let cell = hash & this.#mask;
    while (this.#cells[2 * cell] !== 0) cell = (cell + 1) & this.#mask;
    this.#cells[2 * cell] = entry;
    this.#cells[2 * cell + 1] = hash;
  }
}
