/** What a chain holds: it carries its neighbours itself, and is in one chain at a time. */
export class Link {
  before: this | undefined = undefined;
  after: this | undefined = undefined;
  chain: unknown = undefined;
}

/**
 * An order in which everything can be taken out from anywhere in constant time, without a lookup. It is also what to hold
 * things in that live shortly where the holder lives long: a Set or Map that grows and shrinks leaves its old tables behind,
 * each of which refers to the next. Once one of them is old, the garbage collector keeps all that come after it, with all
 * that was in them, until its next full round (Node.js 24: three quarters of what a paced lane left to it).
 */
export class Chain<T extends Link> implements Iterable<T> {
  #first: T | undefined;
  #last: T | undefined;

  get first(): T | undefined {
    return this.#first;
  }

  push(item: T): void {
    item.chain = this;
    item.before = this.#last;
    if (this.#last === undefined) this.#first = item;
    else this.#last.after = item;
    this.#last = item;
  }

  /** Changes nothing where `item` is not in this chain. */
  remove(item: T): void {
    if (item.chain !== this) return;
    if (item.before === undefined) this.#first = item.after;
    else item.before.after = item.after;
    if (item.after === undefined) this.#last = item.before;
    else item.after.before = item.before;
    // What is taken out must not keep its old neighbours alive.
    item.before = undefined;
    item.after = undefined;
    item.chain = undefined;
  }

  /** Of all others, none may be removed before it is their turn. */
  *[Symbol.iterator](): Iterator<T> {
    let item = this.#first;
    while (item !== undefined) {
      const next: T | undefined = item.after;
      yield item;
      item = next;
    }
  }
}
