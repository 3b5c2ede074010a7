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
  readonly #nonces = new Map<string, LeaseProof>();
  #releases: LeaseProof[] = [];

  add(claims: readonly LeaseProof[]): void {
    for (const one of claims) {
      // Beyond that the leases run out by themselves.
      if (this.#nonces.size < MOST) this.#nonces.set(one.claim.hex, one);
    }
  }

  take(hex: string): string | undefined {
    const { nonce } = this.#nonces.get(hex) ?? {};
    this.#nonces.delete(hex);
    return nonce;
  }

  /** Releases of which nobody knows whether they came to be. No claim may take these nonces up: a late one would end it. */
  addReleases(releases: readonly LeaseProof[]): void {
    this.#releases.push(...releases.slice(0, Math.max(MOST - this.#releases.length, 0)));
  }

  takeAll(): readonly LeaseProof[] {
    const all = [...this.#nonces.values(), ...this.#releases];
    this.#nonces.clear();
    this.#releases = [];
    return all;
  }

  /** False when somebody else has taken it. */
  forget({ claim, nonce }: LeaseProof): boolean {
    if (this.#nonces.get(claim.hex)?.nonce !== nonce) return false;
    return this.#nonces.delete(claim.hex);
  }
}
