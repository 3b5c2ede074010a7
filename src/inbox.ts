import { bindStore } from './bind.ts';
import { assertPromise } from './consumer-options.ts';
import type { BatchContext, ContextOf } from './context.ts';
import { headersFrom } from './core/headers.ts';
import type { Verdict } from './core/verdict.ts';
import { conflictCause } from './decide.ts';
import { type EffectsOption, ledgerOf } from './effects/ledger.ts';
import type { Batch, Entry } from './entry.ts';
import { describeError, isNevertwiceError, NevertwiceError } from './errors.ts';
import { decodeJson, type Route } from './handlers.ts';
import { identify } from './identify.ts';
import type { Normaliser } from './identity/identity.ts';
import { identityOf, identitySignature } from './identity/identity.ts';
import { joinTransaction } from './join-transaction.ts';
import { checkedName, type Policy, resolvePolicy } from './options.ts';
import type { BoundStore, Path, Scope, Summary } from './path.ts';
import { type Clock, systemClock } from './ports/clock.ts';
import type { Delivery, Message } from './ports/delivery.ts';
import type { Store, TransactionalStore } from './ports/store.ts';
import { processBatch } from './process-batch.ts';
import { warner } from './warnings.ts';

/** A message as the owner of a loop hands it over; only id and body are needed. */
export type Incoming<B> = { id: string; body: B } & Partial<Omit<Message<B>, 'id' | 'body'>>;

/** What became of a message that may be acked. */
export type Outcome<R> =
  | { readonly status: 'processed'; readonly result: R }
  | { readonly status: 'duplicate'; readonly cause: string; readonly result?: R }
  | { readonly status: 'dead-lettered'; readonly reason: string };

/** Some messages of a batch may not be acked; `outcomes`, in the batch's order, says which may. */
export class BatchError extends NevertwiceError {
  readonly outcomes: readonly (Outcome<void> | { readonly status: 'rejected'; readonly error: unknown })[];

  constructor(outcomes: BatchError['outcomes']) {
    const rejected = outcomes.filter(outcome => outcome.status === 'rejected');
    super(
      'NT_BATCH',
      `${rejected.length} of ${outcomes.length} messages may not be acked; the first because: ${describeError(rejected[0]?.error)}`,
      {
        cause: rejected[0]?.error,
      },
    );
    this.name = 'BatchError';
    this.outcomes = outcomes;
  }
}

export interface InboxCalls<S extends Store> {
  /**
   * Resolves exactly when acking is safe: processed, duplicate, or dead-lettered. Rejects otherwise, with the handler's
   * own error, NT_BUSY, NT_STORE_DOWN or NT_HANDLER_TIMEOUT: do not ack. A caller who ignores the result loses nothing.
   */
  process<B, R>(
    message: Incoming<B>,
    handler: (message: Message<B>, context: ContextOf<S>) => R | Promise<R>,
  ): Promise<Outcome<R>>;
  /** The same for a batch and a set-based handler. Rejects with BatchError when some may not be acked. */
  processBatch<B>(
    messages: readonly Incoming<B>[],
    handler: (messages: readonly Message<B>[], context: BatchContext<ContextOf<S>>) => void | Promise<void>,
  ): Promise<readonly Outcome<void>[]>;
}

export interface Inbox<S extends Store> extends InboxCalls<S> {
  /**
   * Creates or checks the tables and registers this consumer. Every call does it by itself when it is the first; only
   * before `within` it should be awaited once, since it needs a connection of its own: on SQLite it would wait for the
   * very transaction that the caller holds, and so it would with a pool of one. Rejects like `consumer.run`.
   */
  open(): Promise<void>;
  /**
   * Claims in a transaction that the caller has open: no retry, no commit; its outcomes hold once the caller commits, and
   * after a rejection he must roll back. Each call is one subtransaction, so make at most 64 in a transaction; a batch is
   * one call. Undefined for lease stores.
   */
  readonly within: S extends TransactionalStore<infer Tx> ? (tx: Tx) => InboxCalls<S> : undefined;
}

export interface InboxOptions<S extends Store>
  extends Omit<Policy, 'concurrency' | 'maxBatch' | 'batchBudgetMs' | 'circuit' | 'quarantineAfter'> {
  /** The logical name that scopes deduplication. */
  readonly name: string;
  readonly store: S;
  readonly normalise?: Normaliser;
  /** As of a consumer: where `context.effect` writes its calls down. Only for `process`. */
  readonly effects?: EffectsOption;
  readonly clock?: Clock;
}

/**
 * The same path for people who own their loop: a NestJS controller, a Lambda, a webhook route. Ids come with the
 * messages. Lost races are retried; a failing handler is not, since the broker or the caller tries again.
 */
export function createInbox<S extends Store>(options: InboxOptions<S>): Inbox<S> {
  const name = checkedName(options.name);
  const base = {
    consumer: name,
    // The id travels as the broker id of a made-up delivery, so that it passes the same checks as any other.
    identity: identityOf('given', raw => raw.brokerId as string),
    normalise: options.normalise,
    decode: decodeJson,
    onUnknownType: 'dead-letter' as const,
    overlap: false,
    mode: 'at-least-once' as const,
    effects: ledgerOf(options.effects, options.store),
    keepsResults: true,
    dedupe: 'id' as const,
    policy: resolvePolicy(options),
    clock: options.clock ?? systemClock,
    points: undefined,
    warn: warner(),
  };
  assertPromise(base, options.store);
  let binding: Promise<BoundStore> | undefined;
  const bound = () => {
    binding ??= bindStore(options.store, { name, signature: identitySignature(base.identity, base.normalise) }).catch(
      error => {
        binding = undefined;
        throw error;
      },
    );
    return binding;
  };
  const pathOn = (store: BoundStore, route: Route): Path => ({ ...base, store, router: () => route, counts: zero() });

  const calls = (
    bound: () => Promise<BoundStore>,
    decideAll: (path: Path, batch: Batch) => Promise<void>,
  ): InboxCalls<S> => ({
    async process(message, handler) {
      const batch = batchOf(name, [message]);
      await decideAll(pathOn(await bound(), { kind: 'handle', handler, body: undefined }), batch);
      const outcome = outcomeOf(batch.entries![0]!);
      if (outcome.status === 'rejected') throw outcome.error;
      return outcome as Outcome<any>;
    },
    async processBatch(messages, handler) {
      if (messages.length === 0) return [];
      const batch = batchOf(name, messages);
      let failure: { readonly error: unknown } | undefined;
      const path = pathOn(await bound(), { kind: 'handleBatch', handler, body: undefined });
      await decideAll(path, batch).catch(error => {
        failure = { error };
      });
      if (batch.entries === undefined) throw failure?.error;
      const outcomes = batch.entries.map(entry => outcomeOf(entry, failure?.error));
      if (outcomes.some(outcome => outcome.status === 'rejected'))
        throw new BatchError(outcomes as BatchError['outcomes']);
      return outcomes as Outcome<void>[];
    },
  });

  const never = new AbortController().signal;
  const scope: Scope = {
    lane: name,
    position: undefined,
    stopping: never,
    abort: never,
    attempts: 1,
    busyWaitMs: base.policy.busyWaitMs,
    // The failure stays with its entry, so that its neighbours in a batch are not held up by it.
    canRetryLater: () => true,
  };
  const boundBeforehand = () =>
    bound().catch(cause => {
      if (!isNevertwiceError(cause, 'NT_STORE_DOWN')) throw cause;
      const advice =
        'the store could not be opened while your transaction is open; await inbox.open() once before you begin';
      throw new NevertwiceError('NT_STORE_DOWN', advice, { cause });
    });
  const within = (tx: unknown) =>
    calls(boundBeforehand, async (path, batch) => {
      batch.entries = await identify(path, batch.deliveries);
      await joinTransaction(path, scope, tx, batch.entries);
    });
  return {
    ...calls(bound, (path, batch) => processBatch(path, scope, batch)),
    open: async () => void (await bound()),
    within: (options.store.promise === 'exactly-once' ? within : undefined) as Inbox<S>['within'],
  };
}

const zero = (): Summary => ({ processed: 0, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });

function batchOf(name: string, messages: readonly Incoming<unknown>[]): Batch {
  return { deliveries: messages.map(message => deliveryOf(name, message)), entries: undefined };
}

function deliveryOf(name: string, message: Incoming<unknown>): Delivery {
  return {
    lane: name,
    position: message.position,
    attempt: message.attempt ?? 1,
    headers: message.headers ?? headersFrom(undefined),
    key: message.key,
    type: message.type,
    time: message.time,
    body: { value: message.body },
    brokerId: message.id,
  };
}

function outcomeOf(
  entry: Entry,
  failure?: unknown,
): Outcome<unknown> | { readonly status: 'rejected'; readonly error: unknown } {
  const verdict: Verdict | undefined = entry.verdict;
  switch (verdict?.verdict) {
    case 'processed':
      return { status: 'processed', result: verdict.result };
    case 'duplicate':
      return {
        status: 'duplicate',
        cause: verdict.cause,
        ...(verdict.result === undefined ? {} : { result: verdict.result }),
      };
    case 'conflict':
      return verdict.deadLettered
        ? { status: 'dead-lettered', reason: conflictCause(verdict).reason }
        : { status: 'duplicate', cause: 'conflict' };
    case 'dead-lettered':
      return { status: 'dead-lettered', reason: verdict.reason };
    case 'retry-later':
      return { status: 'rejected', error: verdict.error };
    default:
      return {
        status: 'rejected',
        error:
          failure ??
          new NevertwiceError(
            'NT_BUSY',
            'a live owner is working on this message; do not ack, it decides what comes of it',
          ),
      };
  }
}
