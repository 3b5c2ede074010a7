/** One offset on its way: read, handed out, settled. */
export interface WindowEntry {
  readonly offset: bigint;
  settled: boolean;
}

/**
 * What a reader of one partition has read and may commit: the lowest offset that is not settled, or the one behind
 * everything that was read. A low-water mark, since a committed offset says that all before it is done. Offsets are bigints:
 * as text "9" is above "10", and as numbers they end at 2^53. Gaps (compaction, control records) do not stall it.
 */
export class OffsetWindow<E extends WindowEntry> {
  #entries: E[] = [];
  /** Everything before this index is settled. */
  #head = 0;
  /** Everything before this index is handed out. */
  #taken = 0;
  #next: bigint | undefined;

  /** The offset behind everything that was read; undefined before the first fetch. */
  get next(): bigint | undefined {
    return this.#next;
  }

  /** Read and not settled yet. */
  get open(): number {
    return this.#entries.length - this.#head;
  }

  /** Read and not handed out yet. */
  get waiting(): number {
    return this.#entries.length - this.#taken;
  }

  /** The offset to commit: the next to be read by whoever comes after us. Undefined while nothing was read. */
  get committable(): bigint | undefined {
    return this.#entries[this.#head]?.offset ?? this.#next;
  }

  /** True when this offset, or one behind it, was read before. */
  has(offset: bigint): boolean {
    return this.#next !== undefined && offset < this.#next;
  }

  /** Something to hand out. They must come in rising order, each offset once. */
  add(entry: E): void {
    this.#entries.push(entry);
    this.#next = entry.offset + 1n;
  }

  /** The next that wait, in order. */
  take(max: number): E[] {
    const taken = this.#entries.slice(this.#taken, this.#taken + max);
    this.#taken += taken.length;
    return taken;
  }

  /** There is nothing to hand out before `offset`. */
  skipTo(offset: bigint): void {
    if (this.#next === undefined || offset > this.#next) this.#next = offset;
  }

  settle(entry: E): void {
    entry.settled = true;
    while (this.#entries[this.#head]?.settled) this.#head++;
    if (this.#head < 1_024 || this.#head * 2 < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#head);
    this.#taken -= this.#head;
    this.#head = 0;
  }
}
