import { NevertwiceError } from '../../errors.ts';

/** A write counts only when this many replicas have it. */
export interface WaitForReplicas {
  /** How many, at least 1. */
  readonly replicas: number;
  /** How long to wait for them, in milliseconds, 1 to 60,000. */
  readonly timeoutMs: number;
}

export interface RedisStoreOptions {
  /** Begins every key. Default `nevertwice:`. Without braces, which decide the hash slot. */
  readonly prefix?: string;
  /**
   * How long a completed id is kept, in milliseconds from its completion; a copy that comes later is handled again.
   * Default: 2 days more than the source can deliver a message again, where it says so, and 9 days otherwise: the 7 for
   * which Kafka keeps a record by default, and 2 for people.
   */
  readonly retentionMs?: number;
  /** How long the store waits for the answer to one command, in milliseconds. Default 5,000, 1 to 600,000. */
  readonly timeoutMs?: number;
  /**
   * Over how many hash slots the ids of a consumer are spread; one batch is one call for each slot that it touches. Taken
   * at the consumer's first start and kept with its name, since an id in another slot would be an id never seen.
   * Default 16 in a cluster and 1 otherwise, where more calls would only cost. 1 to 1,024.
   */
  readonly slots?: number;
  /**
   * After a claim and after a completion, wait for replicas; fewer than asked is NT_STORE_DOWN. It narrows the window in
   * which a failover forgets them and does not close it. Default: no waiting. The client's connection stands still
   * meanwhile.
   */
  readonly waitForReplicas?: WaitForReplicas;
  /** Start on a server that may evict keys although that forgets what was done. Default false. */
  readonly allowEviction?: boolean;
  /**
   * How often the server is asked whether it has evicted keys, in milliseconds, while the store is open; when it has, the
   * process is warned (NT_EVICTED). Default 60,000, 10 to a day.
   */
  readonly evictionCheckMs?: number;
}

export interface RedisSettings {
  readonly prefix: string;
  /** Undefined where the source decides. */
  readonly retentionMs: number | undefined;
  readonly timeoutMs: number;
  readonly slots: number | undefined;
  readonly waitForReplicas: WaitForReplicas | undefined;
  readonly allowEviction: boolean;
  readonly evictionCheckMs: number;
}

const DAY_MS = 86_400_000;
/** PEXPIRE adds the time to live to the clock in 64 bits, and Lua counts in doubles; 100 years fit both. */
const LONGEST_MS = 100 * 366 * DAY_MS;

/** How long a consumer's ids are kept, of whose source this much is known. */
export function retentionOf({ retentionMs }: RedisSettings, redeliveryHorizonMs = 7 * DAY_MS): number {
  return retentionMs ?? Math.min(LONGEST_MS, redeliveryHorizonMs + 2 * DAY_MS);
}

export function redisSettings(options: RedisStoreOptions): RedisSettings {
  const prefix = options.prefix ?? 'nevertwice:';
  if (typeof prefix !== 'string' || prefix === '' || /[{}]/.test(prefix)) {
    throw wrong('prefix must be text without braces, and not empty');
  }
  const wait = options.waitForReplicas;
  return {
    prefix,
    retentionMs: options.retentionMs === undefined ? undefined : whole('retentionMs', options.retentionMs, LONGEST_MS),
    timeoutMs: whole('timeoutMs', options.timeoutMs ?? 5_000, 600_000),
    slots: options.slots === undefined ? undefined : whole('slots', options.slots, 1_024),
    waitForReplicas:
      wait === undefined
        ? undefined
        : {
            replicas: whole('waitForReplicas.replicas', wait.replicas, 1_000),
            timeoutMs: whole('waitForReplicas.timeoutMs', wait.timeoutMs, 60_000),
          },
    allowEviction: options.allowEviction ?? false,
    evictionCheckMs: whole('evictionCheckMs', options.evictionCheckMs ?? 60_000, DAY_MS, 10),
  };
}

function whole(option: string, value: number, max: number, min = 1): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw wrong(`${option} is ${value}; give a whole number from ${min} to ${max}`);
}

function wrong(text: string): NevertwiceError {
  return new NevertwiceError('NT_CONFIG', `redisStore: ${text}`);
}
