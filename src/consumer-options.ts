import type { BatchContext, MessageContext } from './context.ts';
import type { EffectsOption } from './effects/ledger.ts';
import { NevertwiceError } from './errors.ts';
import { type Decode, decodeJson, type Router, routerFor, type Schema } from './handlers.ts';
import { header } from './identity/extractors.ts';
import { type Identity, identitySignature, type Normaliser } from './identity/identity.ts';
import { position } from './identity/weak-extractors.ts';
import { checkedName, oneOf, type Policy, type ResolvedPolicy, resolvePolicy } from './options.ts';
import type { Mode } from './path.ts';
import { type Clock, systemClock } from './ports/clock.ts';
import type { Message } from './ports/delivery.ts';
import type { Source } from './ports/source.ts';
import type { Sql } from './ports/sql.ts';
import type { Store } from './ports/store.ts';
import { warner } from './warnings.ts';

/**
 * One kind of message: `handle` sees messages one by one, in order; `handleBatch` sees all fresh ones of a transaction
 * at once, which is the fastest way and has no isolation trap.
 */
export type Shape<B, C extends MessageContext> = {
  /** Any Standard Schema for the decoded body. What is invalid becomes a dead letter naming the field. */
  body?: Schema<B>;
  /** Bytes of this type's bodies to a value; without it the consumer's. */
  decode?: Decode;
} & (
  | { handle: (message: Message<NoInfer<B>>, context: C) => unknown; handleBatch?: never }
  | { handleBatch: (messages: readonly Message<NoInfer<B>>[], context: BatchContext<C>) => unknown; handle?: never }
);

/** Either one handler for everything, or handlers by type. */
export type Handlers<B, M, C extends MessageContext> =
  | (Shape<B, C> & { handlers?: never })
  | {
      handlers: { [T in keyof M]: Shape<M[T], C> };
      /** A message of another type: `dead-letter` (default), `ignore` (acked, not recorded), or `refuse` (stops the consumer). */
      onUnknownType?: 'dead-letter' | 'ignore' | 'refuse';
      handle?: never;
      handleBatch?: never;
      body?: never;
    };

export type ConsumerOptions<S extends Store, B, M, C extends MessageContext> = {
  /** The logical name that scopes deduplication. Must stay the same over hosts, queues and deployments. */
  name: string;
  source?: Source;
  store?: S;
  /** How a message gets its id. Default `header('message-id')`. */
  identity?: Identity;
  /** Maps spellings of one id to one: `lowerCaseUuid`, `nfc`. Default none: ids are byte-exact. */
  normalise?: Normaliser;
  /** Bytes of the body to a value. Default JSON. */
  decode?: Decode;
  /** Creates the handler's own tables; runs at every start, one process at a time, in a transaction. */
  setup?: (sql: Sql) => Promise<void>;
  /**
   * `by-key`: handlers of different keys overlap inside one transaction, on one pipelined connection. They are not
   * isolated from each other: a handler that reads, computes and writes loses updates of its neighbours. SAVEPOINT,
   * ROLLBACK TO, SET LOCAL and cursors are refused. Only for `handle`. Default: one after the other.
   */
  overlap?: 'by-key';
  /**
   * What tells a copy from a new message.
   *
   * - `id` (default): its id, one row in the inbox for each message. Catches every copy.
   * - `position`: how far the lane has come, one row a lane. As fast as a loop without deduplication. Catches redeliveries
   *   only: a producer that sends again and a relay that publishes twice give a new position to an old message. Ids are
   *   optional then; without `identity` a message's id is its position.
   * - `both`: the id decides what is a copy, and the position fences: what a process that was taken for dead still does
   *   cannot commit, and a database that lost commits has them delivered again.
   *
   * The last two need a transactional store and a source that is an ordered log (Kafka), not `overlap`.
   */
  dedupe?: 'id' | 'position' | 'both';
  /**
   * `at-least-once` (default) handles and then marks as done. `at-most-once`, for lease stores alone, marks first: nothing
   * happens twice, and what a crash or an error interrupts is **lost**. A handler that fails is not tried again; its message
   * becomes a dead letter.
   */
  mode?: Mode;
  /**
   * The handler calls `context.effect`. `true` writes its calls down in the store, beside the handler's transaction: on a
   * connection of its own, or on a second one of the pool where the client gives no other way. A store (of PostgreSQL or SQLite)
   * is where they are written instead: with a lease store, and with SQLite, whose file has one writer. Transactions then have
   * one message each, and stay open while the call takes; an outbox and a consumer of its own for the effect are faster. Default
   * none.
   */
  effects?: EffectsOption;
  /** Time and randomness, for tests. */
  clock?: Clock;
} & Policy &
  Handlers<B, M, C>;

export interface ConsumerSettings {
  readonly name: string;
  readonly identity: Identity;
  readonly normalise: Normaliser | undefined;
  readonly decode: Decode;
  readonly router: Router;
  readonly onUnknownType: 'dead-letter' | 'ignore' | 'refuse';
  readonly overlap: boolean;
  readonly mode: Mode;
  readonly dedupe: 'id' | 'position' | 'both';
  readonly policy: ResolvedPolicy;
  readonly clock: Clock;
  warn(code: string, text: string): void;
}

type UnknownType = { readonly onUnknownType?: ConsumerSettings['onUnknownType'] };

/** Validates once and copies; the caller's object is neither kept nor changed. */
export function resolveConsumer(options: ConsumerOptions<any, any, any, any>): ConsumerSettings {
  const dedupe = oneOf('dedupe', options.dedupe ?? 'id', ['id', 'position', 'both'] as const);
  const settings: ConsumerSettings = {
    name: checkedName(options.name),
    identity: options.identity ?? (dedupe === 'position' ? position() : header('message-id')),
    dedupe,
    normalise: options.normalise,
    decode: options.decode ?? decodeJson,
    router: routerFor(options),
    onUnknownType: oneOf('onUnknownType', (options as UnknownType).onUnknownType ?? 'dead-letter', [
      'dead-letter',
      'ignore',
      'refuse',
    ]),
    overlap: options.overlap !== undefined && oneOf('overlap', options.overlap, ['by-key']) === 'by-key',
    mode: oneOf('mode', options.mode ?? 'at-least-once', ['at-least-once', 'at-most-once'] as const),
    policy: resolvePolicy(options),
    clock: options.clock ?? systemClock,
    warn: warner(),
  };
  if (typeof settings.identity !== 'function' || typeof settings.identity.signature !== 'string') {
    throw new NevertwiceError(
      'NT_CONFIG',
      'identity must be one of header(), bodyPath(), cloudEvent(), naturalKey(), brokerId(), or a function with a signature',
    );
  }
  if (settings.overlap && options.handleBatch !== undefined) {
    throw new NevertwiceError('NT_CONFIG', 'overlap is for handle; handleBatch sees the whole batch already');
  }
  if (settings.overlap && dedupe !== 'id') {
    throw new NevertwiceError(
      'NT_CONFIG',
      "overlap: 'by-key' finishes messages out of order, and a position says that everything before it is done; use dedupe: 'id'",
    );
  }
  if (options.effects !== undefined && hasSets(options)) {
    throw new NevertwiceError('NT_CONFIG', 'effects are for handle: the key of an effect follows from one message');
  }
  return settings;
}

function hasSets({ handleBatch, handlers = {} }: { handleBatch?: unknown; handlers?: object }): boolean {
  return handleBatch !== undefined || Object.values(handlers).some(shape => shape.handleBatch !== undefined);
}

/**
 * What the store compares at each start. By position alone no ids are kept, so that a change to or from it would do
 * everything again that the group's offsets do not cover: it counts as another identity.
 */
export function consumerSignature({ identity, normalise, dedupe }: ConsumerSettings): string {
  const signature = identitySignature(identity, normalise);
  return dedupe === 'position' ? `by position, ${signature}` : signature;
}

/** Options that only a lease store can keep: in a transaction, the mark and the effect are one. */
export function assertPromise({ mode, policy }: Pick<ConsumerSettings, 'mode' | 'policy'>, store: Store): void {
  if (store.promise === 'at-least-once') return;
  const option =
    mode === 'at-most-once' ? "mode: 'at-most-once'" : policy.onStoreDown === 'process' ? "onStoreDown: 'process'" : '';
  if (option === '') return;
  throw new NevertwiceError(
    'NT_CONFIG',
    `${option} is for lease stores: with ${store.name} the effect is in the transaction that marks it, and there is none without the store`,
  );
}

/** Overlapping handlers need a store whose connection gains by it; the reason it gives is the error. */
export function assertOverlap(settings: ConsumerSettings, store: Store): void {
  if (settings.overlap && store.capabilities.overlap !== true) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `overlap: 'by-key' cannot be used with ${store.name}: ${store.capabilities.overlap}`,
    );
  }
}
