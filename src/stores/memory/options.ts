import { NevertwiceError } from '../../errors.ts';

/** The store's own clock and chance. */
export interface MemoryClock {
  /** Milliseconds since 1970. Decides when leases and retention end, so it must not run backwards. */
  now(): number;
  /** 0 ≤ x < 1. */
  random(): number;
}

export interface MemoryOptions {
  /**
   * Most ids kept per consumer. Above it the oldest completed ones go first, and a copy of one that has gone is handled
   * again. A live claim never goes. Default 1,000,000: 46 MB outside the JavaScript heap, 62 MB with fingerprints. What
   * handlers return is kept on the heap, in addition.
   */
  readonly maxEntries?: number;
  /** How long a completed id is kept, in milliseconds from its completion. Default 14 days. */
  readonly retentionMs?: number;
  /** Most dead letters kept per consumer; above it the oldest is dropped, with a process warning once. Default 10,000. */
  readonly maxDeadLetters?: number;
  /** For tests. Default: the system's, which a change of the wall clock does not move. */
  readonly clock?: MemoryClock;
}

export type MemorySettings = Required<MemoryOptions>;

const DAY_MS = 86_400_000;

const systemMemoryClock: MemoryClock = {
  now: () => performance.timeOrigin + performance.now(),
  random: Math.random,
};

export function memorySettings(options: MemoryOptions): MemorySettings {
  return {
    maxEntries: atLeastOne('maxEntries', options.maxEntries ?? 1_000_000),
    retentionMs: atLeastOne('retentionMs', options.retentionMs ?? 14 * DAY_MS),
    maxDeadLetters: atLeastOne('maxDeadLetters', options.maxDeadLetters ?? 10_000),
    clock: options.clock ?? systemMemoryClock,
  };
}

function atLeastOne(option: string, value: number): number {
  if (Number.isFinite(value) && value >= 1) return value;
  throw new NevertwiceError('NT_CONFIG', `memoryStore: ${option} is ${value}; give a number of at least 1`);
}
