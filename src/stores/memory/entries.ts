import { nextToken, payloadConflict } from '../../core/lease-rules.ts';
import type { Answer, Claim, LeaseGrant, LeaseState } from '../../ports/store.ts';
import type { MemorySettings } from './options.ts';

interface Claimed {
  /** Undefined once the owner has given it up. */
  readonly nonce: string | undefined;
  readonly token: bigint;
  /** The end of the lease. */
  readonly until: number;
  readonly fingerprint: string | undefined;
}

interface Done {
  readonly at: number;
  readonly fingerprint: string | undefined;
  readonly result: unknown;
}

/** How many entries one sweep looks at before it lets other work run. */
const SWEEP_STEP = 10_000;

/**
 * The ids of one consumer: absent → claimed → done. A claim outlives its lease and its release, as the memory of its
 * token: the next owner's is always higher.
 */
export class Entries {
  readonly #settings: MemorySettings;
  readonly #claimed = new Map<string, Claimed>();
  // In order of completion, since a Map keeps the order of insertion: the front is what expires next.
  readonly #done = new Map<string, Done>();
  #nonces = 0;

  constructor(settings: MemorySettings) {
    this.#settings = settings;
  }

  get size(): number {
    return this.#claimed.size + this.#done.size;
  }

  claim(claim: Claim, leaseMs: number): LeaseGrant {
    const now = this.#settings.clock.now();
    const answer = this.#answer(claim, now);
    if (answer.answer !== 'fresh') return { answer };
    const last = this.#claimed.get(claim.hex);
    const token = nextToken(last?.token, now);
    const nonce = this.#nonce();
    this.#claimed.delete(claim.hex);
    this.#claimed.set(claim.hex, { nonce, token, until: now + leaseMs, fingerprint: claim.fingerprint });
    this.#evict(now);
    return { answer, nonce, token };
  }

  #answer(claim: Claim, now: number): Answer {
    const done = this.#completed(claim.hex, now);
    if (done !== undefined) {
      const { at, fingerprint, result } = done;
      return payloadConflict(fingerprint, claim.fingerprint) ?? { answer: 'duplicate', at: new Date(at), result };
    }
    const claimed = this.#claimed.get(claim.hex);
    if (claimed === undefined || claimed.nonce === undefined || claimed.until <= now) return { answer: 'fresh' };
    return (
      payloadConflict(claimed.fingerprint, claim.fingerprint) ?? { answer: 'busy', until: new Date(claimed.until) }
    );
  }

  #completed(hex: string, now: number): Done | undefined {
    const done = this.#done.get(hex);
    return done === undefined || this.#expired(done, now) ? undefined : done;
  }

  /** False where `nonce` no longer owns the key. An owner whose lease ran out but whom nobody replaced still does. */
  complete(claim: Claim, nonce: string, result: unknown): boolean {
    const claimed = this.#claimed.get(claim.hex);
    if (claimed?.nonce !== nonce) return false;
    const now = this.#settings.clock.now();
    this.#claimed.delete(claim.hex);
    this.#done.delete(claim.hex);
    this.#done.set(claim.hex, { at: now, fingerprint: claimed.fingerprint, result });
    return true;
  }

  /** False where `nonce` no longer owns the key. An owner whose lease ran out but whom nobody replaced still does. */
  renew(claim: Claim, nonce: string, leaseMs: number): boolean {
    const claimed = this.#claimed.get(claim.hex);
    if (claimed?.nonce !== nonce) return false;
    this.#claimed.set(claim.hex, { ...claimed, until: this.#settings.clock.now() + leaseMs });
    return true;
  }

  inspect({ hex }: Claim): LeaseState {
    const done = this.#completed(hex, this.#settings.clock.now());
    if (done !== undefined) {
      const at = new Date(done.at);
      return done.result === undefined ? { state: 'done', at } : { state: 'done', at, result: done.result };
    }
    const claimed = this.#claimed.get(hex);
    if (claimed === undefined) return { state: 'absent' };
    const { nonce, token, until } = claimed;
    return nonce === undefined ? { state: 'released', token } : { state: 'claimed', token, until: new Date(until) };
  }

  /** False where `nonce` no longer owns the key. */
  release(claim: Claim, nonce: string): boolean {
    const claimed = this.#claimed.get(claim.hex);
    if (claimed?.nonce !== nonce) return false;
    const until = this.#settings.clock.now();
    this.#claimed.set(claim.hex, { ...claimed, nonce: undefined, until });
    return true;
  }

  /** Removes what has expired, a bounded number at a time. True when there may be more. */
  sweep(): boolean {
    const now = this.#settings.clock.now();
    let looked = 0;
    for (const [hex, done] of this.#done) {
      if (!this.#expired(done, now)) break;
      this.#done.delete(hex);
      if (++looked >= SWEEP_STEP) return true;
    }
    // Leases differ in length, so that these are in no order; but only claims in flight and given-up ones are here.
    for (const [hex, { until }] of this.#claimed) {
      if (until + this.#settings.retentionMs <= now) this.#claimed.delete(hex);
    }
    return false;
  }

  counts(): { processed: number; oldest: Date | undefined; newest: Date | undefined } {
    const now = this.#settings.clock.now();
    const times = [...this.#done.values()].filter(done => !this.#expired(done, now)).map(done => done.at);
    const [oldest, newest] = [times[0], times.at(-1)];
    return {
      processed: times.length,
      oldest: oldest === undefined ? undefined : new Date(oldest),
      newest: newest === undefined ? undefined : new Date(newest),
    };
  }

  #expired(done: Done, now: number): boolean {
    return done.at + this.#settings.retentionMs <= now;
  }

  #evict(now: number): void {
    for (const hex of this.#done.keys()) {
      if (this.size <= this.#settings.maxEntries) return;
      this.#done.delete(hex);
    }
    for (const [hex, { until }] of this.#claimed) {
      if (this.size <= this.#settings.maxEntries) return;
      if (until <= now) this.#claimed.delete(hex);
    }
  }

  #nonce(): string {
    return `${++this.#nonces}-${this.#settings.clock.random().toString(36).slice(2)}`;
  }
}
