import { NevertwiceError } from '../../errors.ts';
import type { Clock } from '../../ports/clock.ts';
import { isBusy } from './errors.ts';

const FIRST_WAIT_MS = 1;
const LONGEST_WAIT_MS = 20;

/** What `attempt` answers when the caller has begun on the same handle. */
export const TRANSACTION_OPEN = 'its handle has had another transaction open';

export interface Patience {
  readonly clock: Clock;
  readonly busyTimeoutMs: number;
}

/**
 * Tries `attempt` until the lock it needs is free, for at most `busyTimeoutMs`. SQLite's own busy_timeout would sleep in
 * the C library with the event loop frozen: timers, heartbeats and the very transaction that holds the lock stand still.
 * `attempt` answers a text when something else than a lock is in the way.
 */
export async function whenFree(store: string, patience: Patience, attempt: () => string | undefined): Promise<void> {
  const { clock, busyTimeoutMs } = patience;
  const start = clock.monotonicMs();
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    const { inTheWay, cause } = tryOnce(attempt);
    if (inTheWay === undefined) return;
    const waited = clock.monotonicMs() - start;
    if (waited >= busyTimeoutMs) {
      throw new NevertwiceError(
        'NT_STORE_DOWN',
        `${store}: ${inTheWay} for ${Math.round(waited)} ms; nothing was handled, do not ack`,
        { cause },
      );
    }
    // Jitter, or two processes that met once meet at every retry.
    await clock.sleep(Math.min(wait * (0.5 + clock.random()), busyTimeoutMs - waited));
  }
}

function tryOnce(attempt: () => string | undefined): { inTheWay: string | undefined; cause?: unknown } {
  try {
    return { inTheWay: attempt() };
  } catch (cause) {
    if (isBusy(cause)) return { inTheWay: 'database is locked by another process', cause };
    throw cause;
  }
}
