import { NevertwiceError } from '../errors.ts';
import type { Answer, Claim, ConsumerRegistration, LeaseGrant, LeaseInbox, LeaseStore } from '../ports/store.ts';

export interface CompletedCacheOptions {
  /** Most ids remembered, of all consumers together; the one that was not asked for longest goes first. Default 100,000. */
  readonly maxEntries?: number;
  /**
   * How long an id is remembered, in milliseconds. Not longer than the store keeps it, or the cache would call a duplicate
   * what the store no longer knows. Default an hour.
   */
  readonly ttlMs?: number;
}

/** How often the cache knew the answer. */
export interface CacheCounts {
  readonly hits: number;
  readonly misses: number;
  /** Ids remembered now. */
  readonly entries: number;
}

export interface CachedStore extends LeaseStore {
  readonly cache: CacheCounts;
  /** Forgets everything: whoever removes ids from the store by hand calls it in each process. */
  clearCache(): void;
}

interface Completed {
  readonly fingerprint: string | undefined;
  readonly at: Date | undefined;
  readonly result: unknown;
  readonly untilMs: number;
}

/**
 * A remote lease store with a memory of **completed** ids in front of it, so that their copies are answered without a call.
 * Claims are never remembered: who owns a key only the store knows. Not for a SQL store: one that lost commits, after a
 * failover, has to be asked, or the cache would drop what was lost there.
 *
 * @throws NT_CONFIG for a transactional store or a wrong option
 */
export function completedCache(store: LeaseStore, options: CompletedCacheOptions = {}): CachedStore {
  const { maxEntries = 100_000, ttlMs = 3_600_000 } = options;
  if ((store as { promise: string }).promise !== 'at-least-once') {
    throw new NevertwiceError('NT_CONFIG', 'completedCache is for lease stores; a transactional store has to be asked');
  }
  for (const [name, value] of Object.entries({ maxEntries, ttlMs })) {
    if (Number.isSafeInteger(value) && value >= 1) continue;
    throw new NevertwiceError('NT_CONFIG', `completedCache: ${name} is ${value}; give a positive integer`);
  }
  const known = new Remembered(maxEntries, ttlMs);
  return {
    promise: store.promise,
    name: store.name,
    capabilities: store.capabilities,
    positions: store.positions,
    get staleCalls() {
      return store.staleCalls;
    },
    get cache() {
      return known.counts;
    },
    clearCache: () => known.clear(),
    letters: store.letters,
    attempts: store.attempts,
    ping: () => store.ping(),
    stats: () => store.stats(),
    close: () => store.close(),
    open: async consumer => cachedInbox(await store.open(consumer), consumer, known),
  };
}

function cachedInbox(inbox: LeaseInbox, { name }: ConsumerRegistration, known: Remembered): LeaseInbox {
  return {
    retentionMs: inbox.retentionMs,
    renew: (items, leaseMs) => inbox.renew(items, leaseMs),
    release: items => inbox.release(items),
    inspect: claims => inbox.inspect(claims),
    deadLetter: letters => inbox.deadLetter(letters),
    blockedKeys: keys => inbox.blockedKeys(keys),
    async claim(claims, leaseMs) {
      const grants: (LeaseGrant | undefined)[] = claims.map(claim => known.answerTo(name, claim));
      const asked = claims.filter((_, i) => grants[i] === undefined);
      if (asked.length === 0) return grants as LeaseGrant[];
      const given = (await inbox.claim(asked, leaseMs))[Symbol.iterator]();
      return claims.map((claim, i) => {
        const cached = grants[i];
        if (cached !== undefined) return cached;
        const grant = given.next().value!;
        const { answer } = grant;
        if (answer.answer === 'duplicate') known.add(name, claim, answer.at, answer.result);
        return grant;
      });
    },
    async complete(items) {
      const owned = await inbox.complete(items);
      // By our clock: the store does not say when.
      const at = new Date();
      for (const [i, { claim, result }] of items.entries()) if (owned[i]) known.add(name, claim, at, result);
      return owned;
    },
  };
}

class Remembered {
  readonly #maxEntries: number;
  readonly #ttlMs: number;
  // A Map keeps the order of insertion, so that its front is what was not asked for longest.
  readonly #ids = new Map<string, Completed>();
  #hits = 0;
  #misses = 0;

  constructor(maxEntries: number, ttlMs: number) {
    this.#maxEntries = maxEntries;
    this.#ttlMs = ttlMs;
  }

  get counts(): CacheCounts {
    return { hits: this.#hits, misses: this.#misses, entries: this.#ids.size };
  }

  clear(): void {
    this.#ids.clear();
  }

  answerTo(consumer: string, claim: Claim): LeaseGrant | undefined {
    const id = keyOf(consumer, claim);
    const found = this.#ids.get(id);
    if (found !== undefined) this.#ids.delete(id);
    if (found === undefined || found.untilMs <= performance.now()) {
      this.#misses++;
      return undefined;
    }
    this.#ids.set(id, found);
    this.#hits++;
    return { answer: answerFrom(found, claim) };
  }

  add(consumer: string, claim: Claim, at: Date | undefined, result: unknown): void {
    const { fingerprint } = claim;
    const id = keyOf(consumer, claim);
    this.#ids.delete(id);
    this.#ids.set(id, { fingerprint, at, result, untilMs: performance.now() + this.#ttlMs });
    if (this.#ids.size <= this.#maxEntries) return;
    const [oldest] = this.#ids.keys();
    this.#ids.delete(oldest!);
  }
}

function keyOf(consumer: string, { hex }: Claim): string {
  // Hex has no space, so that no two pairs run into one.
  return `${hex} ${consumer}`;
}

function answerFrom({ fingerprint, at, result }: Completed, claim: Claim): Answer {
  if (fingerprint !== undefined && claim.fingerprint !== undefined && fingerprint !== claim.fingerprint) {
    return { answer: 'conflict', stored: fingerprint, offered: claim.fingerprint };
  }
  return { answer: 'duplicate', at, ...(result === undefined ? {} : { result }) };
}
