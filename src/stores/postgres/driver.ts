import { NevertwiceError } from '../../errors.ts';
import type { TransactionGuard } from '../sql/guard.ts';
import type { Statement } from './statements.ts';

export type Row = Readonly<Record<string, unknown>>;

/** How a transaction is ended by those who work in it. */
export interface TransactionEnd {
  /**
   * Ends the transaction while `work` still runs: the handle is dead at once, the statement that runs on the server is
   * cancelled, and `transaction` rejects with `reason` after the rollback, whether or not `work` ever settles.
   */
  abandon(reason: unknown): void;
  /**
   * Sends a statement with COMMIT, behind everything else and behind those given before; `seen` gets its rows before the
   * transaction resolves. Where it fails with 2201G the transaction rejects with NT_LANE_LOST.
   */
  commitBehind(statement: Statement, seen?: (rows: readonly Row[]) => void): void;
}

/** A statement that goes with COMMIT. */
export interface Behind {
  readonly statement: Statement;
  readonly seen: ((rows: readonly Row[]) => void) | undefined;
}

/** In a transaction that the caller commits, nobody can say what goes last. */
export function refuseCommitBehind(): never {
  throw new NevertwiceError('NT_CONFIG', 'the position of a lane cannot be kept in a transaction of the caller');
}

/** An open transaction on one connection. */
export interface OpenTransaction<Tx> extends TransactionEnd {
  /** The user's handle, guarded. */
  readonly tx: Tx;
  readonly guard: TransactionGuard;
  /** True when all that a handler sends goes by the guard, savepoints above all. */
  readonly watched: boolean;
  /** True for a transaction of the caller, who commits it himself. */
  readonly joined: boolean;
  /** Our own statements; they pass by the guard. */
  query(statement: Statement): Promise<readonly Row[]>;
  /** For clients that must be told of savepoints themselves; undefined where SAVEPOINT is a statement like any other. */
  readonly savepoint?: (<R>(work: () => Promise<R>) => Promise<R>) | undefined;
}

export interface BeginOptions {
  readonly overlap: boolean;
  /** Sent in the round trip of BEGIN where the client can. */
  readonly first: Statement | undefined;
}

/** How one client library runs transactions: a new client is one of these. */
export interface Driver<Tx> {
  readonly name: string;
  /** Handlers may overlap on one connection with a gain; otherwise why not. */
  readonly overlap: true | string;
  readonly connections: number | undefined;
  /**
   * Commits when `work` resolves, and only resolves itself when the server confirmed the commit. Rejects with the
   * error of `work`, with NT_TX_ABORTED, NT_COMMIT_UNKNOWN or NT_STORE_DOWN. Either way nothing of it stays open.
   */
  transaction<R>(
    options: BeginOptions,
    work: (open: OpenTransaction<Tx>, first: readonly Row[]) => Promise<R>,
  ): Promise<R>;
  /** The caller's own open transaction, watched by a guard while our work runs in it. */
  join(tx: Tx): OpenTransaction<Tx>;
  /** One statement outside any transaction. */
  query(statement: Statement): Promise<readonly Row[]>;
  /** The same on a connection that is none of the pool's. Undefined where the client gives no way to open one. */
  readonly aside?: ((statement: Statement) => Promise<readonly Row[]>) | undefined;
  /**
   * Listens on a channel, on a connection of its own, until `closed` resolves or rejects: when the connection is lost. Left
   * out by clients that cannot.
   */
  listen?(channel: string, heard: (payload: string) => void): Promise<Listening>;
}

export interface Listening {
  /** Resolves when the connection has gone, in whatever way. */
  readonly closed: Promise<void>;
  /** Gives the connection up. */
  close(): void;
}
