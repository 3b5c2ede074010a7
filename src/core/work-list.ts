/**
 * The groups of one batch that are still to be tried, in lane order. A group that failed as a whole is taken apart until
 * the one that is to blame stands alone; its neighbours go on in their old order.
 */
export class WorkList<T> {
  readonly #groups: (readonly T[])[] = [];
  // After a failure the next groups start small and double with each success: were every message bad, trying all the
  // rest together after each of them would claim n²/2 ids.
  #limit = Number.POSITIVE_INFINITY;

  constructor(items: readonly T[]) {
    this.pushFront(items);
  }

  /** The next group, cut to the current limit. */
  take(): readonly T[] | undefined {
    const group = this.#groups.shift();
    if (group === undefined || group.length <= this.#limit) return group;
    this.#groups.unshift(group.slice(this.#limit));
    return group.slice(0, this.#limit);
  }

  pushFront(...groups: readonly (readonly T[])[]): void {
    this.#groups.unshift(...groups.filter(group => group.length > 0));
  }

  /** What is left, in order; the list is empty afterwards. */
  drain(): readonly T[] {
    return this.#groups.splice(0).flat();
  }

  succeeded(): void {
    this.#limit *= 2;
  }

  /** The item at `index` is to blame: those before it, it alone, those behind it. */
  isolate(group: readonly T[], index: number): void {
    this.#limit = 2;
    this.pushFront(group.slice(0, index), [group[index]!], group.slice(index + 1));
  }

  /** Nobody knows who is to blame: two halves. */
  halve(group: readonly T[]): void {
    const half = Math.ceil(group.length / 2);
    this.#limit = Math.max(1, half);
    this.pushFront(group.slice(0, half), group.slice(half));
  }
}
