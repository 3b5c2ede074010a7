import type { Backoff } from '../core/backoff.ts';
import { NevertwiceError } from '../errors.ts';
import { type Clock, systemClock } from '../ports/clock.ts';
import type { TransactionalStore } from '../ports/store.ts';
import type { Destination } from './destination.ts';

export interface RelayOptions {
  /** The store whose outbox it empties. */
  readonly store: TransactionalStore<any>;
  /** Where it publishes: a destination of the library, or a function that resolves once the message is there for good. */
  readonly destination: Destination | Extract<Destination, { publish(...args: any[]): unknown }>['publish'];
  /** Messages that are read and published together. Default 500, 1 to 10,000. */
  readonly maxBatch?: number;
  /** Batches in work at once, each of other keys. Default 4, 1 to 16. */
  readonly concurrency?: number;
  /** Keys in work at once in each batch, where the destination takes one message at a time. Default 16, 1 to 1,000. */
  readonly overlap?: number;
  /** Refused tries after which a message is parked. Default 10, 1 to 1,000. */
  readonly maxAttempts?: number;
  /** Waits between tries, of a message that is refused and of a destination that is down. Default 100 ms to 30 s, with jitter. */
  readonly backoff?: Partial<Backoff>;
  /** How long a destination may take for a batch or a message, in milliseconds. Default 30,000. */
  readonly publishTimeoutMs?: number;
  /** How often an idle relay looks by itself, in milliseconds. Default 250, 5 to 60,000. Signs of new rows come faster. */
  readonly pollMs?: number;
  /** How long the parts of a relay that died wait for another one, in milliseconds. Default 10,000, 500 to 600,000. */
  readonly leaseMs?: number;
  /** False for a relay that only polls and takes no connection to listen on. Default true. */
  readonly listen?: boolean;
  /** Time and chance; for tests. Default: the system's. */
  readonly clock?: Clock;
}

export interface RelaySettings {
  readonly store: TransactionalStore<any>;
  readonly destination: Destination;
  readonly maxBatch: number;
  readonly concurrency: number;
  readonly overlap: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly publishTimeoutMs: number;
  readonly pollMs: number;
  readonly leaseMs: number;
  readonly listen: boolean;
  readonly clock: Clock;
}

export function relaySettings(options: RelayOptions): RelaySettings {
  const { store, destination, backoff = {} } = options;
  if (store?.promise !== 'exactly-once') {
    throw new NevertwiceError('NT_CONFIG', 'createRelay needs a store with transactions (PostgreSQL, SQLite)');
  }
  const { minMs = 100, maxMs = Math.max(30_000, minMs) } = backoff;
  return {
    store,
    destination: destinationFrom(destination),
    maxBatch: within('maxBatch', options.maxBatch ?? 500, 1, 10_000),
    concurrency: within('concurrency', options.concurrency ?? 4, 1, 16),
    overlap: within('overlap', options.overlap ?? 16, 1, 1_000),
    maxAttempts: within('maxAttempts', options.maxAttempts ?? 10, 1, 1_000),
    backoff: {
      minMs: within('backoff.minMs', minMs, 1, 600_000),
      maxMs: within('backoff.maxMs', maxMs, minMs, 3_600_000),
    },
    publishTimeoutMs: within('publishTimeoutMs', options.publishTimeoutMs ?? 30_000, 1, 3_600_000),
    pollMs: within('pollMs', options.pollMs ?? 250, 5, 60_000),
    leaseMs: within('leaseMs', options.leaseMs ?? 10_000, 500, 600_000),
    listen: options.listen ?? true,
    clock: options.clock ?? systemClock,
  };
}

function destinationFrom(given: RelayOptions['destination']): Destination {
  if (typeof given === 'function') return { name: given.name || 'a function', publish: given };
  if (typeof given?.publish === 'function' || typeof given?.publishAll === 'function') return given;
  throw new NevertwiceError(
    'NT_CONFIG',
    'createRelay needs a destination: a function, kafkaDestination(…), httpDestination(…) or inboxDestination(…)',
  );
}

function within(name: string, value: number, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new NevertwiceError('NT_CONFIG', `${name} is ${value}; give a whole number from ${min} to ${max}`);
}
