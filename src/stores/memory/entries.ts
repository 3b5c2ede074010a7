import { nextToken, payloadConflict } from '../../core/lease-rules.ts';
import type { Answer, Claim, LeaseGrant, LeaseState } from '../../ports/store.ts';
import { type Completed, CompletedTable } from './completed-table.ts';
import { KeyBits } from './key-bits.ts';
import { Open, OpenClaims } from './open-claims.ts';
import type { MemorySettings } from './options.ts';

/** How many entries one sweep looks at before it lets other work run. */
const SWEEP_STEP = 10_000;

/**
 * The ids of one consumer: absent → claimed → done. A claim outlives its lease and its release, as the memory of its
 * token: the next owner's is always higher. An id is either among the open claims or among the done ones.
 */
export class Entries {
  readonly #settings: MemorySettings;
  /** Of the claim that is being looked at. */
  readonly #key = new KeyBits();
  readonly #open = new OpenClaims();
  readonly #done = new CompletedTable();
  /** No other store of this process gives these out. */
  readonly #name: string;
  #nonces = 0;

  constructor(settings: MemorySettings) {
    this.#settings = settings;
    this.#name = settings.clock.random().toString(36).slice(2);
  }

  get size(): number {
    return this.#open.size + this.#done.size;
  }

  claim(claim: Claim, leaseMs: number): LeaseGrant {
    const now = this.#settings.clock.now();
    const key = this.#key.read(claim.hex);
    const done = this.#completed(key, now);
    if (done !== undefined) return { answer: answerDone(done, claim) };
    const last = this.#open.get(claim.hex, key.hash);
    if (last !== undefined && !last.released && last.at > now) return { answer: answerBusy(last, claim) };
    const open = last ?? new Open(claim.hex, key.hash);
    open.released = false;
    open.nonce = `${++this.#nonces}-${this.#name}`;
    open.token = nextToken(last?.token, now);
    open.at = now + leaseMs;
    open.fingerprint = claim.fingerprint;
    if (last !== undefined) this.#open.toEnd(open);
    else {
      this.#open.add(open);
      this.#evict(now);
    }
    return { answer: { answer: 'fresh' }, nonce: open.nonce, token: open.token };
  }

  /** False where `nonce` no longer owns the key. An owner whose lease ran out but whom nobody replaced still does. */
  complete(claim: Claim, nonce: string, result: unknown): boolean {
    const open = this.#owned(claim, nonce);
    if (open === undefined) return false;
    this.#done.add(this.#key, this.#settings.clock.now(), open.fingerprint, result);
    this.#open.remove(open);
    return true;
  }

  /** False where `nonce` no longer owns the key. An owner whose lease ran out but whom nobody replaced still does. */
  renew(claim: Claim, nonce: string, leaseMs: number): boolean {
    const open = this.#owned(claim, nonce);
    if (open === undefined) return false;
    open.at = this.#settings.clock.now() + leaseMs;
    return true;
  }

  /** False where `nonce` no longer owns the key. */
  release(claim: Claim, nonce: string): boolean {
    const open = this.#owned(claim, nonce);
    if (open === undefined) return false;
    open.released = true;
    open.at = this.#settings.clock.now();
    return true;
  }

  inspect({ hex }: Claim): LeaseState {
    const key = this.#key.read(hex);
    const done = this.#completed(key, this.#settings.clock.now());
    if (done !== undefined) {
      const at = new Date(done.at);
      return done.result === undefined ? { state: 'done', at } : { state: 'done', at, result: done.result };
    }
    const open = this.#open.get(hex, key.hash);
    if (open === undefined) return { state: 'absent' };
    const { released, token, at } = open;
    return released ? { state: 'released', token } : { state: 'claimed', token, until: new Date(at) };
  }

  /** Leaves the claim's key in `#key`. */
  #owned({ hex }: Claim, nonce: string): Open | undefined {
    const open = this.#open.get(hex, this.#key.read(hex).hash);
    return open !== undefined && !open.released && open.nonce === nonce ? open : undefined;
  }

  /** What is kept of a completed id, unless it has expired. */
  #completed(key: KeyBits, now: number): Completed | undefined {
    const done = this.#done.get(key);
    if (done === undefined || !this.#expired(done.at, now)) return done;
    this.#done.delete(key);
    return undefined;
  }

  /** Removes what has expired, a bounded number at a time. True when there may be more. */
  sweep(): boolean {
    const now = this.#settings.clock.now();
    for (let looked = 0; looked < SWEEP_STEP; looked++) {
      const at = this.#done.oldestAt;
      if (at === undefined || !this.#expired(at, now)) {
        this.#sweepOpen(now);
        return false;
      }
      this.#done.deleteOldest();
    }
    return true;
  }

  // Leases differ in length, so that these are in no order; but only claims in flight and given-up ones are here.
  #sweepOpen(now: number): void {
    for (const open of this.#open) if (this.#expired(open.at, now)) this.#open.remove(open);
  }

  counts(): { processed: number; oldest: Date | undefined; newest: Date | undefined } {
    const now = this.#settings.clock.now();
    let processed = 0;
    let oldest: number | undefined;
    let newest: number | undefined;
    for (const at of this.#done.times()) {
      if (this.#expired(at, now)) continue;
      processed++;
      oldest ??= at;
      newest = at;
    }
    return {
      processed,
      oldest: oldest === undefined ? undefined : new Date(oldest),
      newest: newest === undefined ? undefined : new Date(newest),
    };
  }

  #expired(at: number, now: number): boolean {
    return at + this.#settings.retentionMs <= now;
  }

  #evict(now: number): void {
    while (this.size > this.#settings.maxEntries && this.#done.size > 0) this.#done.deleteOldest();
    for (const open of this.#open) {
      if (this.size <= this.#settings.maxEntries) return;
      if (open.at <= now) this.#open.remove(open);
    }
  }
}

function answerDone({ at, fingerprint, result }: Completed, claim: Claim): Answer {
  return payloadConflict(fingerprint, claim.fingerprint) ?? { answer: 'duplicate', at: new Date(at), result };
}

function answerBusy({ at, fingerprint }: Open, claim: Claim): Answer {
  return payloadConflict(fingerprint, claim.fingerprint) ?? { answer: 'busy', until: new Date(at) };
}
