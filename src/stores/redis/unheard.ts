import { randomBytes } from 'node:crypto';
import type { LeaseProof } from '../../ports/store.ts';

/** 96 bits of this process, and a number: drawn for each claim, they were a third of what a claim cost. */
const OURS = randomBytes(12).toString('base64url');
const MOST = 10_000;
let nonces = 0;

/** No two claims ever have the same. */
export function newNonce(): string {
  return `${OURS}.${(nonces++).toString(36)}`;
}

/**
 * Claims whose answer was never heard, by id. The server may hold a lease for them that nobody works under; without this
 * memory everything in flight at an outage would be busy until its lease ends. The next claim of the id comes with the same
 * nonce, so that it is the same claim; or the lease is given back. Never both: whoever takes an entry removes it. And
 * releases that failed, whose leases nobody works under either.
 */
export class UnheardClaims {
  // Several of one id where lanes have asked for copies of it: one of them may own it.
  readonly #nonces = new Map<string, LeaseProof[]>();
  #size = 0;
  #releases: LeaseProof[] = [];

  add(claims: readonly LeaseProof[]): void {
    for (const one of claims) {
      // Beyond that the leases run out by themselves.
      if (this.#size >= MOST) return;
      this.#size++;
      const known = this.#nonces.get(one.claim.hex);
      if (known === undefined) this.#nonces.set(one.claim.hex, [one]);
      else known.push(one);
    }
  }

  take(hex: string): string | undefined {
    if (this.#size === 0) return undefined;
    const [first] = this.#nonces.get(hex) ?? [];
    if (first !== undefined) this.forget(first);
    return first?.nonce;
  }

  /** Releases of which nobody knows whether they came to be. No claim may take these nonces up: a late one would end it. */
  addReleases(releases: readonly LeaseProof[]): void {
    this.#releases.push(...releases.slice(0, Math.max(MOST - this.#releases.length, 0)));
  }

  takeAll(): readonly LeaseProof[] {
    const all = [...[...this.#nonces.values()].flat(), ...this.#releases];
    this.#nonces.clear();
    this.#size = 0;
    this.#releases = [];
    return all;
  }

  /** False when somebody else has taken it. */
  forget({ claim, nonce }: LeaseProof): boolean {
    const known = this.#nonces.get(claim.hex) ?? [];
    const left = known.filter(one => one.nonce !== nonce);
    if (left.length === known.length) return false;
    this.#size--;
    if (left.length === 0) this.#nonces.delete(claim.hex);
    else this.#nonces.set(claim.hex, left);
    return true;
  }
}
