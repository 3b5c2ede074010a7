/** One offset that was handed out. */
export interface WindowEntry {
  readonly offset: bigint;
  settled: boolean;
}

/**
 * What a reader of one partition may commit: the lowest offset that is not settled, or the one behind everything that was
 * read. A low-water mark, since a committed offset says that all before it is done. Offsets are bigints: as text "9" is
 * above "10", and as numbers they end at 2^53. Gaps (compaction, control records) do not stall it.
 */
export class OffsetWindow {
  #entries: WindowEntry[] = [];
  /** Everything before this index is settled. */
  #head = 0;
  #next: bigint | undefined;

  /** The offset behind everything that was read; undefined before the first fetch. */
  get next(): bigint | undefined {
    return this.#next;
  }

  /** Offsets read and not settled yet. */
  get open(): number {
    return this.#entries.length - this.#head;
  }

  /** The offset to commit: the next to be read by whoever comes after us. Undefined while nothing was read. */
  get committable(): bigint | undefined {
    return this.#entries[this.#head]?.offset ?? this.#next;
  }

  /** An offset to hand out; undefined when it was read before. They must come in rising order. */
  add(offset: bigint): WindowEntry | undefined {
    if (this.#next !== undefined && offset < this.#next) return undefined;
    const entry = { offset, settled: false };
    this.#entries.push(entry);
    this.#next = offset + 1n;
    return entry;
  }

  /** There is nothing to hand out before `offset`. */
  skipTo(offset: bigint): void {
    if (this.#next === undefined || offset > this.#next) this.#next = offset;
  }

  settle(entry: WindowEntry): void {
    entry.settled = true;
    while (this.#entries[this.#head]?.settled) this.#head++;
    if (this.#head < 1_024 || this.#head * 2 < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#head);
    this.#head = 0;
  }
}
