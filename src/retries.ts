import { backoffMs } from './core/backoff.ts';
import type { Entry, ReadyEntry } from './entry.ts';
import type { ResolvedPolicy } from './options.ts';
import type { Path, Scope } from './path.ts';

/** Longest delay before a message that was handed back comes again. */
const LATER = { minMs: 1_000, maxMs: 60_000 };

/** How long after its first delivery this consumer itself may still try a message again, at most, in milliseconds. */
export function retryHorizonMs({ attempts, deliveries, timeoutMs, backoff, busyWaitMs }: ResolvedPolicy): number {
  return deliveries * (attempts * (timeoutMs + backoff.maxMs) + busyWaitMs + LATER.maxMs);
}

/** Counts one failed try; true when there is another one in this process. */
export function countFailure(path: Path, scope: Scope, entry: ReadyEntry): boolean {
  entry.failures++;
  path.counts.failed++;
  path.circuit?.failed();
  entry.message = { ...entry.message, attempt: entry.delivery.attempt + entry.failures };
  return entry.failures < scope.attempts;
}

export function retryLater(path: Path, entry: ReadyEntry, error: unknown): Entry['verdict'] {
  const delayMs = Math.round(backoffMs(entry.delivery.attempt, LATER, path.clock.random()));
  return { verdict: 'retry-later', error, delayMs };
}
