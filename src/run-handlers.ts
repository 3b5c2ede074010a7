import { byKey, planRuns } from './core/runs.ts';
import type { ReadyEntry } from './entry.ts';
import { NevertwiceError } from './errors.ts';
import type { Path, Scope } from './path.ts';

/** What came out of the handlers of one transaction or lease group. */
export interface Handled {
  readonly results: ReadonlyMap<ReadyEntry, unknown>;
  readonly rejected: ReadonlyMap<ReadyEntry, string>;
  /** Not started, because the consumer is stopping or the transaction has grown old. */
  readonly cut: readonly ReadyEntry[];
}

/** A handler's error together with the message it came from, where that is known. */
export class HandlerFailed extends Error {
  readonly error: unknown;
  readonly entry: ReadyEntry | undefined;

  constructor(error: unknown, entry: ReadyEntry | undefined) {
    super('a handler failed', { cause: error });
    this.error = error;
    this.entry = entry;
  }
}

export interface Surroundings {
  /** The context for one message, or for a run. */
  context(signal: AbortSignal, entry: ReadyEntry | undefined): object;
  /** What `context.for(message)` gives in a set-based handler. */
  forMessage(entry: ReadyEntry): object;
  /** Called when a handler must not go on: it overran its time, or the stop reached its deadline. */
  cutOff(reason: unknown): void;
  /** True when no further handler may start in this group. */
  full(): boolean;
  /** Called before each message of a `handle` route, in order. */
  next?(): void;
  /** Called after each message of a `handle` route, in order. */
  done?(entry: ReadyEntry, result: unknown): Promise<void>;
}

/** Runs the handlers of `entries`, in order, in runs of one type each. Throws HandlerFailed at the first failure. */
export async function runHandlers(
  path: Path,
  scope: Scope,
  entries: readonly ReadyEntry[],
  around: Surroundings,
): Promise<Handled> {
  const results = new Map<ReadyEntry, unknown>();
  const rejected = new Map<ReadyEntry, string>();
  const cut: ReadyEntry[] = [];
  for (const run of planRuns(entries)) {
    if (scope.stopping.aborted) cut.push(...run.items);
    else if (run.route.kind === 'handleBatch') await runSet(path, scope, run.items, around, results, rejected);
    else if (path.overlap) await runOverlapping(path, scope, run.items, around, results);
    else await runInOrder(path, scope, run.items, around, results, cut);
  }
  return { results, rejected, cut };
}

async function runInOrder(
  path: Path,
  scope: Scope,
  items: readonly ReadyEntry[],
  around: Surroundings,
  results: Map<ReadyEntry, unknown>,
  cut: ReadyEntry[],
): Promise<void> {
  for (let i = 0; i < items.length; i++) {
    if (i > 0 && (scope.stopping.aborted || around.full())) {
      cut.push(...items.slice(i));
      return;
    }
    const entry = items[i]!;
    around.next?.();
    const result = await runOne(path, scope, entry, around);
    results.set(entry, result);
    if (around.done !== undefined) await around.done(entry, result);
  }
}

/** Distinct keys at once, the same key in order. All of them have ended when this returns or throws. */
async function runOverlapping(
  path: Path,
  scope: Scope,
  items: readonly ReadyEntry[],
  around: Surroundings,
  results: Map<ReadyEntry, unknown>,
): Promise<void> {
  let failed: HandlerFailed | undefined;
  const chain = async (entries: readonly ReadyEntry[]) => {
    for (const entry of entries) {
      if (failed !== undefined) return;
      try {
        results.set(entry, await runOne(path, scope, entry, around));
      } catch (error) {
        // The first in time is the likely cause; what fails after it fails because the transaction is gone.
        failed ??= error as HandlerFailed;
      }
    }
  };
  await Promise.all(byKey(items).map(chain));
  if (failed !== undefined) throw failed;
}

async function runOne(path: Path, scope: Scope, entry: ReadyEntry, around: Surroundings): Promise<unknown> {
  try {
    return await limited(
      path.policy.timeoutMs,
      scope.abort,
      reason => around.cutOff(new HandlerFailed(reason, entry)),
      signal => entry.route.handler(entry.message, around.context(signal, entry)),
    );
  } catch (error) {
    throw new HandlerFailed(error, entry);
  }
}

async function runSet(
  path: Path,
  scope: Scope,
  items: readonly ReadyEntry[],
  around: Surroundings,
  results: Map<ReadyEntry, unknown>,
  rejected: Map<ReadyEntry, string>,
): Promise<void> {
  const entryOf = new Map(items.map(entry => [entry.message, entry]));
  const own = (message: unknown): ReadyEntry => {
    const entry = entryOf.get(message as ReadyEntry['message']);
    if (entry === undefined)
      throw new NevertwiceError(
        'NT_CONFIG',
        'this message is not one of the batch; pass the object that the handler got',
      );
    return entry;
  };
  const route = items[0]!.route;
  const blamed = items.length === 1 ? items[0] : undefined;
  try {
    await limited(
      path.policy.timeoutMs,
      scope.abort,
      reason => around.cutOff(new HandlerFailed(reason, blamed)),
      signal =>
        route.handler(
          items.map(entry => entry.message),
          Object.defineProperties(around.context(signal, undefined), {
            for: { value: (message: unknown) => around.forMessage(own(message)) },
            reject: { value: (message: unknown, reason: string) => void rejected.set(own(message), String(reason)) },
          }),
        ),
    );
  } catch (error) {
    throw new HandlerFailed(error, blamed);
  }
  for (const entry of items) if (!rejected.has(entry)) results.set(entry, undefined);
}

/** Runs a handler under its time limit. On overrun it is told to stop, its handle is taken away, and this rejects. */
async function limited<R>(
  timeoutMs: number,
  abort: AbortSignal,
  cutOff: (reason: unknown) => void,
  run: (signal: AbortSignal) => R | Promise<R>,
): Promise<R> {
  const controller = new AbortController();
  const overrun = Promise.withResolvers<never>();
  overrun.promise.catch(() => undefined);
  const stop = (reason: unknown) => {
    controller.abort(reason);
    cutOff(reason);
    overrun.reject(reason);
  };
  const timer = setTimeout(
    () =>
      stop(
        new NevertwiceError(
          'NT_HANDLER_TIMEOUT',
          `the handler ran longer than timeoutMs (${timeoutMs} ms); its transaction was rolled back`,
        ),
      ),
    timeoutMs,
  );
  const onAbort = () => stop(abort.reason);
  abort.addEventListener('abort', onAbort, { once: true });
  try {
    if (abort.aborted) throw abort.reason;
    return await Promise.race([run(controller.signal), overrun.promise]);
  } finally {
    clearTimeout(timer);
    abort.removeEventListener('abort', onAbort);
  }
}
