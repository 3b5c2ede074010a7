import { backoffMs } from './core/backoff.ts';
import { effectsAround } from './effects/surroundings.ts';
import type { ReadyEntry } from './entry.ts';
import { NevertwiceError } from './errors.ts';
import type { Path, Scope } from './path.ts';
import { countFailure, retryLater } from './retries.ts';
import { HandlerFailed, runHandlers } from './run-handlers.ts';

/**
 * `onStoreDown: 'process'`: handlers run although nobody can say whether the message was done, or is being done elsewhere.
 * Each of them is counted. Their token is 0, which a downstream that checks tokens refuses.
 */
export async function handleUnprotected(
  path: Path,
  scope: Scope,
  entries: readonly ReadyEntry[],
  cause: unknown,
): Promise<void> {
  path.warn(
    'NT_UNPROTECTED',
    `${path.consumer}: the store is down and onStoreDown is 'process': messages are handled without protection against copies`,
  );
  for (const entry of entries) {
    if (scope.stopping.aborted) return;
    await handleOne(path, scope, entry, cause);
  }
}

async function handleOne(path: Path, scope: Scope, entry: ReadyEntry, cause: unknown): Promise<void> {
  const effects = effectsAround(path, scope);
  while (!scope.stopping.aborted) {
    try {
      const { results } = await runHandlers(path, scope, [entry], {
        context: (signal, one) => ({
          signal,
          effect: effects.effectOf(signal, one),
          ...(one === undefined ? {} : { token: 0n }),
        }),
        ...effects.ended,
        forMessage: () => ({ token: 0n }),
        cutOff: () => undefined,
        full: () => false,
      });
      if (results.has(entry)) processedUnprotected(path, entry, results.get(entry));
      // Rejected: a dead letter needs the store.
      else throw setAsideLater(cause);
      return;
    } catch (thrown) {
      if (!(thrown instanceof HandlerFailed)) throw thrown;
      if (!countFailure(path, scope, entry)) {
        if (!scope.canRetryLater(entry)) throw setAsideLater(cause);
        entry.verdict = retryLater(path, entry, thrown.error);
        return;
      }
      await path.clock.sleep(backoffMs(entry.failures, path.policy.backoff, path.clock.random()), scope.stopping);
    }
  }
}

/** Its effect is there, and the store does not know. */
export function processedUnprotected(path: Path, entry: ReadyEntry, result: unknown): void {
  path.counts.processed++;
  path.counts.unprotected = (path.counts.unprotected ?? 0) + 1;
  entry.verdict = { verdict: 'processed', result };
}

function setAsideLater(cause: unknown): NevertwiceError {
  return new NevertwiceError('NT_STORE_DOWN', 'a message is to be set aside, which needs the store', { cause });
}
