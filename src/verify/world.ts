import type { Gate, Held } from './gate.ts';

/** A row as text, by column; a JSON null for NULL. */
export type Row = Readonly<Record<string, string | null>>;

/** What an execution left behind: tables of the database, requests that an HTTP server has carried out, published messages. */
export type State = ReadonlyMap<string, readonly Row[]>;

/** One server on which the handler has effects. */
export interface Place {
  /** A gate in front of it for a new consumer, and the value of the variable that leads there. */
  gate(onHeld: (held: Held) => void): Promise<{ readonly proxy: Gate; readonly url: string }>;
  /** Everything as it was before the first message. */
  reset(): Promise<void>;
  state(): Promise<State>;
  close(): Promise<void>;
}

/** A place where statements may wait for each other. */
export interface LockingPlace extends Place {
  /** Which of these backends wait for a lock that another one of `among` holds. */
  blocked(backends: readonly number[], among: readonly number[]): Promise<ReadonlySet<number>>;
}

/** Makes a statement stand still between what it reads and what it writes, as it may on a server that has much to do. */
export interface Pausing {
  /** It is one that reads and writes, where it can be made to. */
  suits(text: string): boolean;
  /** Before it is sent: it will stand still when it writes its first row. */
  pause(backend: number): Promise<void>;
  resume(backend: number): Promise<void>;
}

/** Somebody has left a transaction open, and nothing can be read or put back until his connection ends. */
export class PlaceBusy extends Error {}
