import type { Backoff } from './core/backoff.ts';
import { NevertwiceError } from './errors.ts';
import { checkedSeal, type LetterSeal } from './letter-seal.ts';
import type { Message } from './ports/delivery.ts';

/** How a consumer treats what is not an ordinary message. Every row has a default; none is mutated. */
export interface Policy {
  /** Lanes worked on at the same time; each holds one connection of a SQL store. Default 4, or the pool's size less one. 1 to 1,000. */
  readonly concurrency?: number;
  /** Longest run of one handler call, in milliseconds. Then its signal aborts and its transaction is rolled back. Default 30,000. */
  readonly timeoutMs?: number;
  /** Most deliveries in one transaction. Default 500, 1 to 10,000. */
  readonly maxBatch?: number;
  /** Time that the handlers of one transaction may take together, in milliseconds; the batch size follows it. Default 250. */
  readonly batchBudgetMs?: number;
  /**
   * Tries of a failing handler: `attempts` in this process per delivery (default 5), `deliveries` from a source that can
   * hand a message back (default 5), with a back-off from `minMs` (default 100) to `maxMs` (default 10,000) and jitter.
   * Then the message is dead-lettered. Lost races and outages do not count.
   */
  readonly retries?: {
    readonly attempts?: number;
    readonly deliveries?: number;
    readonly minMs?: number;
    readonly maxMs?: number;
  };
  /** Restarts of a transaction that lost a race (deadlock, serialization failure) before that counts as a failed try. Default 5. */
  readonly transientRetries?: number;
  /** How long to wait for a live owner of the same message, in milliseconds, before handing it back. Default 30,000. */
  readonly busyWaitMs?: number;
  /**
   * Life of a claim in a lease store, in milliseconds: what a crash costs. It is renewed while the handler runs, however
   * long that is. Default 60,000, 100 to a day.
   */
  readonly leaseMs?: number;
  /**
   * What to remember of the payload, so that the same id with another payload is seen: `true` (default) the whole body,
   * a function for a part of it, `false` nothing. Costs 17 bytes a row and a few microseconds a message.
   */
  readonly fingerprint?: boolean | ((message: Message<any>) => unknown);
  /**
   * The same id with another payload: `dead-letter` it (default), or drop it like a duplicate with a `warn`ing, or
   * `accept` it as a duplicate in silence. The handler never runs for it.
   */
  readonly onConflict?: 'dead-letter' | 'warn' | 'accept';
  /**
   * While the store cannot be reached: `pause` (default) holds what is in hand and takes nothing else until it answers again,
   * spending no attempt. `throw` ends the run with NT_STORE_DOWN. `process` is unsafe and for lease stores alone: handlers
   * run without protection against copies, and each is counted in `summary.unprotected`. An inbox rejects with
   * NT_STORE_DOWN for the first two.
   */
  readonly onStoreDown?: 'pause' | 'throw' | 'process';
  /**
   * For handlers that cannot tell that what they depend on is down: when at least `ratio` (default 0.5) of the last `of` tries
   * (default 20) failed, no message is set aside or handed back any more; the consumer pauses as for `Unavailable`, tries again,
   * and goes on once tries succeed. A message that is held for `holdMs` (default an hour) is set aside all the same. `true` takes
   * the defaults. Default: none.
   */
  readonly circuit?: boolean | Partial<CircuitPolicy>;
  /** What becomes of a message's headers and body before a dead letter stores them. Default: they are stored as they came. */
  readonly letterSeal?: LetterSeal;
  /**
   * A message whose handler was started this often while the process ended before it returned is set aside without its handler
   * (`quarantined`). Counted once a lane has been found that was not left in an orderly way; the first death goes uncounted.
   * Default 3, 1 to 100; `false` counts nothing.
   */
  readonly quarantineAfter?: number | false;
  /**
   * `message` (default): later messages of the same key go on. `key`: they are set aside behind it, in order; a message with a key
   * is then tried in this process alone and not handed back to the source, since later ones would overtake it.
   */
  readonly deadLetter?: 'message' | 'key';
}

export interface CircuitPolicy {
  /** Above 0, at most 1. */
  readonly ratio: number;
  /** 2 to 10,000. */
  readonly of: number;
  /** In milliseconds. */
  readonly holdMs: number;
}

export interface ResolvedPolicy {
  readonly concurrency: number | undefined;
  readonly timeoutMs: number;
  readonly maxBatch: number;
  readonly batchBudgetMs: number;
  readonly attempts: number;
  readonly deliveries: number;
  readonly backoff: Backoff;
  readonly transientRetries: number;
  readonly busyWaitMs: number;
  readonly leaseMs: number;
  readonly fingerprint: boolean | ((message: Message<any>) => unknown);
  readonly onConflict: 'dead-letter' | 'warn' | 'accept';
  readonly letterSeal: LetterSeal | undefined;
  readonly quarantineAfter: number | undefined;
  readonly deadLetter: 'message' | 'key';
  readonly circuit: CircuitPolicy | undefined;
  readonly onStoreDown: 'pause' | 'throw' | 'process';
}

export function resolvePolicy(policy: Policy): ResolvedPolicy {
  const retries = policy.retries ?? {};
  const resolved: ResolvedPolicy = {
    concurrency: policy.concurrency === undefined ? undefined : whole('concurrency', policy.concurrency, 1, 1_000),
    timeoutMs: whole('timeoutMs', policy.timeoutMs ?? 30_000, 1, 86_400_000),
    maxBatch: whole('maxBatch', policy.maxBatch ?? 500, 1, 10_000),
    batchBudgetMs: whole('batchBudgetMs', policy.batchBudgetMs ?? 250, 1, 60_000),
    attempts: whole('retries.attempts', retries.attempts ?? 5, 1, 1_000),
    deliveries: whole('retries.deliveries', retries.deliveries ?? 5, 1, 1_000_000),
    backoff: {
      minMs: whole('retries.minMs', retries.minMs ?? 100, 0, 3_600_000),
      maxMs: whole('retries.maxMs', retries.maxMs ?? 10_000, 0, 86_400_000),
    },
    transientRetries: whole('transientRetries', policy.transientRetries ?? 5, 1, 100),
    busyWaitMs: whole('busyWaitMs', policy.busyWaitMs ?? 30_000, 0, 86_400_000),
    leaseMs: whole('leaseMs', policy.leaseMs ?? 60_000, 100, 86_400_000),
    fingerprint: checkedFingerprint(policy.fingerprint ?? true),
    onConflict: oneOf('onConflict', policy.onConflict ?? 'dead-letter', ['dead-letter', 'warn', 'accept']),
    onStoreDown: oneOf('onStoreDown', policy.onStoreDown ?? 'pause', ['pause', 'throw', 'process']),
    letterSeal: checkedSeal(policy.letterSeal),
    quarantineAfter:
      policy.quarantineAfter === false ? undefined : whole('quarantineAfter', policy.quarantineAfter ?? 3, 1, 100),
    circuit: circuitFrom(policy.circuit ?? false),
    deadLetter: oneOf('deadLetter', policy.deadLetter ?? 'message', ['message', 'key']),
  };
  return resolved;
}

function circuitFrom(given: boolean | Partial<CircuitPolicy>): CircuitPolicy | undefined {
  if (given === false) return undefined;
  const { ratio = 0.5, of = 20, holdMs = 3_600_000 } = given === true ? {} : given;
  if (typeof ratio !== 'number' || !(ratio > 0 && ratio <= 1)) {
    throw new NevertwiceError('NT_CONFIG', 'circuit.ratio must be a number above 0 and at most 1');
  }
  return { ratio, of: whole('circuit.of', of, 2, 10_000), holdMs: whole('circuit.holdMs', holdMs, 1, 604_800_000) };
}

function checkedFingerprint(fingerprint: unknown): ResolvedPolicy['fingerprint'] {
  if (typeof fingerprint === 'boolean' || typeof fingerprint === 'function')
    return fingerprint as ResolvedPolicy['fingerprint'];
  throw new NevertwiceError('NT_CONFIG', 'fingerprint must be true, false or a function of the message');
}

/** The logical name of a consumer, checked. */
export function checkedName(name: unknown): string {
  if (
    typeof name !== 'string' ||
    name.trim() === '' ||
    name.length > 200 ||
    name.includes('\0') ||
    !name.isWellFormed()
  ) {
    throw new NevertwiceError(
      'NT_CONFIG',
      'a consumer needs a name of 1 to 200 characters: it scopes deduplication, so it must stay the same over hosts, queues and deployments',
    );
  }
  return name;
}

export function whole(name: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    throw new NevertwiceError('NT_CONFIG', `${name} must be a whole number from ${min} to ${max}`);
  }
  return value;
}

export function oneOf<T extends string>(name: string, value: T, allowed: readonly T[]): T {
  if (!allowed.includes(value))
    throw new NevertwiceError('NT_CONFIG', `${name} must be ${allowed.map(a => `'${a}'`).join(' or ')}`);
  return value;
}
