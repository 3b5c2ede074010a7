import { Chain, Link } from '../../core/chain.ts';

/** A claim that is not completed. It is changed in place. */
export class Open extends Link {
  readonly hex: string;
  readonly hash: number;
  released = false;
  /** Of its owner, and after `release` of the last one. */
  nonce = '';
  token = 0n;
  /** The end of the lease, or when it was given up. */
  at = 0;
  fingerprint: string | undefined = undefined;
  /** In the same bucket. */
  next: Open | undefined = undefined;

  constructor(hex: string, hash: number) {
    super();
    this.hex = hex;
    this.hash = hash;
  }
}

const FEWEST_BUCKETS = 64;

/**
 * The claims in flight and the given-up ones, by key, the last claim last. Buckets and no Map, for the reason that `Chain`
 * gives: every message comes and goes here, and with a Map the garbage collector copied 250 bytes of each instead of 40.
 * The buckets become more, never fewer: 8 to 16 bytes for each of the most claims that were ever open at once.
 */
export class OpenClaims implements Iterable<Open> {
  readonly #order = new Chain<Open>();
  #buckets = new Array<Open | undefined>(FEWEST_BUCKETS).fill(undefined);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(hex: string, hash: number): Open | undefined {
    let open = this.#buckets[this.#bucketOf(hash)];
    while (open !== undefined && open.hex !== hex) open = open.next;
    return open;
  }

  /** Its key must not be there. */
  add(open: Open): void {
    if (++this.#size > this.#buckets.length) this.#grow();
    this.#put(open);
    this.#order.push(open);
  }

  toEnd(open: Open): void {
    this.#order.remove(open);
    this.#order.push(open);
  }

  remove(open: Open): void {
    const bucket = this.#bucketOf(open.hash);
    if (this.#buckets[bucket] === open) this.#buckets[bucket] = open.next;
    for (let other = this.#buckets[bucket]; other !== undefined; other = other.next) {
      if (other.next === open) other.next = open.next;
    }
    // What is taken out must not keep its old neighbours alive.
    open.next = undefined;
    this.#order.remove(open);
    this.#size--;
  }

  /** As the chain's: of all others, none may be removed before it is their turn. */
  [Symbol.iterator](): Iterator<Open> {
    return this.#order[Symbol.iterator]();
  }

  #grow(): void {
    this.#buckets = new Array<Open | undefined>(2 * this.#buckets.length).fill(undefined);
    for (const open of this.#order) this.#put(open);
  }

  #put(open: Open): void {
    const bucket = this.#bucketOf(open.hash);
    open.next = this.#buckets[bucket];
    this.#buckets[bucket] = open;
  }

  #bucketOf(hash: number): number {
    return hash & (this.#buckets.length - 1);
  }
}
