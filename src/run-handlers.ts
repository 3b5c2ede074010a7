import { byKey, planRuns, runsInOrder } from './core/runs.ts';
import { Deadline } from './deadline.ts';
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

/** How handlers are embedded in what they share: a transaction, or a group of leases. */
export interface Surroundings {
  /** The context for one message, or, without one, for a set. */
  context(signal: AbortSignal, entry: ReadyEntry | undefined): object;
  /** What `context.for(message)` gives in a set-based handler. */
  forMessage(entry: ReadyEntry): object;
  /** Called when handlers must not go on: one overran its time, or the stop reached its deadline. */
  cutOff(reason: HandlerFailed): void;
  /** True when no further handler may start in this group. */
  full(): boolean;
  /** Called before the first handler, with what cuts them off from outside. */
  started?(cutOff: (reason: unknown, of: ReadonlySet<ReadyEntry>) => void): void;
  /** Called when the handler of one message has resolved: what it left running, and what it must not swallow. */
  ended?(entry: ReadyEntry): Promise<void>;
  /** Called before each message that is handled in order. */
  next?(): void;
  /** Called after each handler that is called in order, with what came of its messages. */
  done?(results: readonly (readonly [ReadyEntry, unknown])[], rejected: ReadonlyMap<ReadyEntry, string>): Promise<void>;
}

interface Group {
  readonly path: Path;
  readonly scope: Scope;
  readonly around: Surroundings;
  readonly deadline: Deadline<ReadyEntry>;
  readonly results: Map<ReadyEntry, unknown>;
  readonly rejected: Map<ReadyEntry, string>;
  readonly cut: ReadyEntry[];
}

/** Runs the handlers of `entries`, in order, in runs of one type each. Throws HandlerFailed at the first failure. */
export async function runHandlers(
  path: Path,
  scope: Scope,
  entries: readonly ReadyEntry[],
  around: Surroundings,
): Promise<Handled> {
  const deadline = new Deadline<ReadyEntry>(path.policy.timeoutMs, scope.abort, (reason, entry) => {
    const failed = new HandlerFailed(reason, entry);
    around.cutOff(failed);
    return failed;
  });
  around.started?.((reason, of) => deadline.cutOff(reason, of));
  const group: Group = { path, scope, around, deadline, results: new Map(), rejected: new Map(), cut: [] };
  await deadline.race(async () => {
    for (const run of path.dedupe === 'position' ? runsInOrder(entries) : planRuns(entries)) {
      // Nothing after a cut: it would overtake an earlier message of its key.
      if (scope.stopping.aborted || group.cut.length > 0) group.cut.push(...run.items);
      else if (run.route.kind === 'handleBatch') await runSet(group, run.items);
      else if (path.overlap) await runOverlapping(group, run.items);
      else await runInOrder(group, run.items);
    }
  });
  return group;
}

const NONE: ReadonlyMap<ReadyEntry, string> = new Map();

async function runInOrder(group: Group, items: readonly ReadyEntry[]): Promise<void> {
  const { scope, around, results } = group;
  for (let i = 0; i < items.length; i++) {
    if (i > 0 && (scope.stopping.aborted || around.full())) {
      group.cut.push(...items.slice(i));
      return;
    }
    const entry = items[i]!;
    around.next?.();
    const result = await runOne(group, entry);
    results.set(entry, result);
    if (around.done !== undefined) await around.done([[entry, result]], NONE);
  }
}

/** Distinct keys at once, the same key in order. All of them have ended when this returns or throws. */
async function runOverlapping(group: Group, items: readonly ReadyEntry[]): Promise<void> {
  let failed: HandlerFailed | undefined;
  const chain = async (entries: readonly ReadyEntry[]) => {
    for (const entry of entries) {
      if (failed !== undefined) return;
      try {
        group.results.set(entry, await runOne(group, entry));
      } catch (error) {
        // The first in time is the likely cause; what fails after it fails because the transaction is gone.
        failed ??= error as HandlerFailed;
      }
    }
  };
  await Promise.all(byKey(items).map(chain));
  if (failed !== undefined) throw failed;
}

async function runOne({ around, deadline }: Group, entry: ReadyEntry): Promise<unknown> {
  const started = deadline.start(entry);
  try {
    const result = await entry.route.handler(entry.message, around.context(deadline.signal, entry));
    if (around.ended !== undefined) await around.ended(entry);
    return result;
  } catch (error) {
    throw new HandlerFailed(error, entry);
  } finally {
    deadline.end(started);
  }
}

async function runSet(group: Group, items: readonly ReadyEntry[]): Promise<void> {
  const { around, deadline } = group;
  const rejected = new Map<ReadyEntry, string>();
  const messages = items.map(entry => entry.message);
  // Most handlers never ask, and a map for each batch would be half of what is made here.
  let entryOf: Map<unknown, ReadyEntry> | undefined;
  const own = (message: unknown): ReadyEntry => {
    entryOf ??= new Map(items.map((entry, i) => [messages[i], entry]));
    const entry = entryOf.get(message);
    if (entry === undefined) {
      throw new NevertwiceError(
        'NT_CONFIG',
        'this message is not one of the batch; pass the object that the handler got',
      );
    }
    return entry;
  };
  const context = {
    ...around.context(deadline.signal, undefined),
    for: (message: unknown) => around.forMessage(own(message)),
    reject: (message: unknown, reason: string) => void rejected.set(own(message), String(reason)),
  };
  const blamed = items.length === 1 ? items[0] : undefined;
  const started = deadline.start(blamed);
  try {
    await items[0]!.route.handler(messages, context);
  } catch (error) {
    throw new HandlerFailed(error, blamed);
  } finally {
    deadline.end(started);
  }
  const done = rejected.size === 0 ? items : items.filter(entry => !rejected.has(entry));
  for (const entry of done) group.results.set(entry, undefined);
  for (const [entry, reason] of rejected) group.rejected.set(entry, reason);
  if (around.done === undefined) return;
  // What ended after the time limit is still done; whether to set a message aside is for the one who has it now.
  await around.done(
    done.map(entry => [entry, undefined]),
    deadline.signal.aborted ? NONE : rejected,
  );
}
