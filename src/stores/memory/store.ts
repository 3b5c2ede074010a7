import { NevertwiceError } from '../../errors.ts';
import type { Attempts } from '../../ports/attempts.ts';
import type { Letters } from '../../ports/letters.ts';
import type {
  ConsumerRegistration,
  Counts,
  DeadLetter,
  LeaseInbox,
  LeaseStore,
  Positions,
  StoreCapabilities,
} from '../../ports/store.ts';
import { assertNamed } from '../registration.ts';
import { memoryAttempts } from './attempts.ts';
import { MemoryDeadLetters, memoryLetters } from './dead-letters.ts';
import { Entries } from './entries.ts';
import { type MemoryOptions, type MemorySettings, memorySettings } from './options.ts';

const LONGEST_SWEEP_MS = 60_000;

interface Scope {
  readonly signature: string;
  readonly entries: Entries;
  readonly deadLetters: MemoryDeadLetters;
  readonly positions: Map<string, string>;
}

/** A lease store in this process's memory. */
export interface MemoryStore extends LeaseStore {
  /** Dead letters of a consumer, oldest first. */
  deadLetters(consumer: string): readonly DeadLetter[];
}

/**
 * A lease store in this process's memory, for tests and for effects that need no memory beyond a restart: after one,
 * every message is new again. At-least-once, with leases as in the other lease stores; see `MemoryOptions` for what
 * bounds it. Completed ids are removed when their retention ends, also when nobody asks for them.
 *
 * @throws NT_CONFIG for an option that is wrong.
 */
export function memoryStore(options: MemoryOptions = {}): MemoryStore {
  return new InMemoryStore(memorySettings(options));
}

class InMemoryStore implements MemoryStore {
  readonly promise = 'at-least-once';
  readonly name = 'memory';
  readonly capabilities: StoreCapabilities = {
    overlap: 'a lease store has no transaction for handlers to overlap in',
    connections: undefined,
  };
  readonly positions: Positions;
  readonly attempts: Attempts = memoryAttempts();
  readonly letters: Letters = memoryLetters(consumer => this.#scopes.get(consumer)?.deadLetters);
  readonly #settings: MemorySettings;
  readonly #scopes = new Map<string, Scope>();
  #sweeping: NodeJS.Timeout | undefined;
  #closed = false;
  #staleCalls = 0;

  constructor(settings: MemorySettings) {
    this.#settings = settings;
    this.positions = {
      load: async (consumer, lane) => this.#scopes.get(consumer)?.positions.get(lane),
      save: async (consumer, lane, position) => {
        this.#scopeOf(consumer).positions.set(lane, position);
      },
    };
  }

  async open(consumer: ConsumerRegistration): Promise<LeaseInbox> {
    const { entries, deadLetters } = this.#register(consumer);
    return {
      retentionMs: this.#settings.retentionMs,
      claim: async (claims, leaseMs) => {
        this.#assertOpen();
        const grants = claims.map(claim => entries.claim(claim, leaseMs));
        this.#sweepSoon(this.#sweepEveryMs);
        return grants;
      },
      renew: async (items, leaseMs) =>
        this.#counted(items.map(({ claim, nonce }) => entries.renew(claim, nonce, leaseMs))),
      complete: async items =>
        this.#counted(items.map(({ claim, nonce, result }) => entries.complete(claim, nonce, result))),
      release: async items => this.#counted(items.map(({ claim, nonce }) => entries.release(claim, nonce))),
      inspect: async claims => claims.map(claim => entries.inspect(claim)),
      deadLetter: async letters => {
        for (const letter of letters) deadLetters.add(letter);
      },
      blockedKeys: async keys => deadLetters.blocked(keys),
    };
  }

  get staleCalls(): number {
    return this.#staleCalls;
  }

  #counted(owned: readonly boolean[]): readonly boolean[] {
    this.#staleCalls += owned.filter(own => !own).length;
    return owned;
  }

  deadLetters(consumer: string): readonly DeadLetter[] {
    return this.#scopes.get(consumer)?.deadLetters.all() ?? [];
  }

  async ping(): Promise<void> {
    this.#assertOpen();
  }

  async stats(): Promise<readonly Counts[]> {
    return [...this.#scopes].map(([consumer, { entries, deadLetters }]) => ({
      consumer,
      deadLetters: deadLetters.all().length,
      ...entries.counts(),
    }));
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#sweeping);
    this.#scopes.clear();
  }

  #register(consumer: ConsumerRegistration): Scope {
    this.#assertOpen();
    assertNamed(consumer);
    const known = this.#scopes.get(consumer.name);
    if (known !== undefined && known.signature !== consumer.signature) {
      throw new NevertwiceError(
        'NT_CONFIG',
        `consumer ${JSON.stringify(consumer.name)} made its ids with ${known.signature} and now starts with ${consumer.signature}: everything in flight would be done twice; keep the identity or use a new consumer name`,
      );
    }
    const scope = known ?? {
      signature: consumer.signature,
      entries: new Entries(this.#settings),
      deadLetters: new MemoryDeadLetters(consumer.name, this.#settings.maxDeadLetters),
      positions: new Map<string, string>(),
    };
    this.#scopes.set(consumer.name, scope);
    return scope;
  }

  #scopeOf(consumer: string): Scope {
    const scope = this.#scopes.get(consumer);
    if (scope !== undefined) return scope;
    throw new NevertwiceError('NT_CONFIG', `consumer ${JSON.stringify(consumer)} has never been opened on this store`);
  }

  #assertOpen(): void {
    if (this.#closed) throw new NevertwiceError('NT_CONFIG', 'the memory store was closed');
  }

  get #sweepEveryMs(): number {
    return Math.min(this.#settings.retentionMs, LONGEST_SWEEP_MS);
  }

  // Runs as long as there is something to expire, whether or not anybody calls: a store that only forgets what is asked
  // for again keeps everything else for ever.
  #sweepSoon(ms: number): void {
    if (this.#closed || this.#sweeping !== undefined) return;
    this.#sweeping = setTimeout(() => {
      this.#sweeping = undefined;
      const all = [...this.#scopes.values()].map(scope => scope.entries);
      const more = all.filter(entries => entries.sweep()).length > 0;
      if (more) this.#sweepSoon(1);
      else if (all.some(entries => entries.size > 0)) this.#sweepSoon(this.#sweepEveryMs);
    }, ms);
    this.#sweeping.unref();
  }
}
