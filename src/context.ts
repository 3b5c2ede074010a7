import type { Effect } from './effects/effect.ts';
import type { OutboxAdd } from './outbox/row.ts';
import type { Message } from './ports/delivery.ts';
import type { Sql } from './ports/sql.ts';
import type { LeaseStore, Store, TransactionalStore } from './ports/store.ts';

/** What every handler gets beside the message. */
export interface MessageContext {
  /** Aborts when the handler overruns `timeoutMs`, or when a stop reaches its deadline. Pass it on. */
  readonly signal: AbortSignal;
  /** Calls something outside once for this message; see `Effect`. Only with the option `effects`, and in `handle`. */
  readonly effect: Effect;
}

/** With a transactional store: write through `tx` or `sql`, and the effect commits together with the claim. */
export interface TransactionContext<Tx> extends MessageContext {
  /** The user's own client type, inside the transaction. Throws NT_TX_CLOSED once it has ended. */
  readonly tx: Tx;
  /** The portable handle: one tagged statement, parameters only. */
  readonly sql: Sql;
  /**
   * Runs `work`; when it throws, only what it wrote is undone, and the transaction goes on. At most 64 a transaction:
   * a batch is cut short before it gets there. Refused while handlers overlap.
   */
  savepoint<R>(work: () => Promise<R>): Promise<R>;
  /** Messages to publish: they are stored in this transaction, and a relay publishes them once it has committed. */
  readonly outbox: OutboxAdd;
}

/** With a lease store: the effect lives elsewhere. */
export interface LeaseContext extends MessageContext {
  /** Rises with every owner of the message; a downstream that refuses lower tokens fences stale owners off. */
  readonly token: bigint;
}

/** The context of a set-based handler. */
export type BatchContext<C extends MessageContext> = Omit<C, 'token' | 'effect' | 'outbox'> & {
  /** What belongs to one message of the batch. */
  for(message: Message<any>): Pick<C, Extract<keyof C, 'token' | 'outbox'>>;
  /** Sets one message aside as a dead letter and lets the others commit. Nothing may have been written for it. */
  reject(message: Message<any>, reason: string): void;
};

export type ContextOf<S extends Store> =
  S extends TransactionalStore<infer Tx> ? TransactionContext<Tx> : S extends LeaseStore ? LeaseContext : never;
