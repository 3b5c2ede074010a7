import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 5;

/**
 * Polls until `look` gives something other than undefined, null or false, and resolves with that. Rejects after
 * `withinMs` (default 10,000), saying what did not happen.
 */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  withinMs = 10_000,
): Promise<Exclude<T, undefined | null | false>> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== null && found !== false) {
      return found as Exclude<T, undefined | null | false>;
    }
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(POLL_MS);
  }
}

/** The outcome of `promise`, or a rejection that says what did not end in time. */
export async function endsWithin<T>(withinMs: number, what: string, promise: Promise<T>): Promise<T> {
  const timer = new AbortController();
  const late = sleep(withinMs, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`not within ${withinMs} ms: ${what}`);
  });
  late.catch(() => undefined);
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.abort();
  }
}
