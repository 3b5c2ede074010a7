/** Where a request goes. */
export type Place = 'postgres' | 'redis' | 'http' | 'sqlite' | 'broker';

/** What a request came to, for people: `INSERT 0 1`, `OK`, `200`, or an error's code. */
export interface Reply {
  readonly text: string;
  readonly failed: boolean;
}

/**
 * One request of a consumer, held back until somebody decides about it. Exactly one of the first four is called, once; what
 * follows `send` is said at each.
 */
export interface Held {
  readonly place: Place;
  /** Tells connections of one consumer to one place apart, by their order: 1, 2, … */
  readonly connection: number;
  /** What it asks for, on one line, with its parameters in place. */
  readonly text: string;
  /** A statement that is never worth a choice: BEGIN, SET, a driver's own question. */
  readonly quiet: boolean;
  /** Forwards it. Resolves when the reply is there, which the consumer does not see yet: `answer` or `cut` follows. */
  send(): Promise<Reply>;
  /** After `send`: lets the consumer have the reply. */
  answer(): void;
  /** After `send`: closes the consumer's side alone. The server goes on, and notices when it wants to answer. */
  abandon?(): void;
  /** Closes the connection on both sides: before `send` the server never sees it, after it the reply is lost. */
  cut(): Promise<void>;
  /**
   * After the consumer was killed: sends what it had sent, although nobody waits for it any more. Resolves when the server
   * has done it and has noticed that the client is gone.
   */
  land(): Promise<Reply>;
  /** Drops it, together with its connection to the server: it never lands. */
  drop(): Promise<void>;
  /** The consumer has given it up before anybody decided: it closed its connection. */
  readonly gone: boolean;
  /** Of SQLite, after `send`: tries again where it has met a lock, and resolves when it meets one. */
  lockMet?(): Promise<void>;
  /** Of SQLite: its own limit ends its wait for a lock. */
  giveUp?(): void;
  /** Of PostgreSQL: the backend that runs it, to ask whether it waits for a lock. */
  readonly backend?: number | undefined;
}

/** Told when a request has come to a gate. */
export type OnHeld = (held: Held) => void;

/** In front of one server, for one consumer. Everything that it needs to know of the server it was told when it was made. */
export interface Gate {
  readonly port: number;
  /** What runs or is open on the server for this consumer. */
  readonly backends: readonly number[];
  /**
   * The consumer is dead. Closes its connections to the server, but for those of `kept`, and resolves when the server has
   * let go of them. New connections are refused until `reopen`.
   */
  sever(kept: readonly Held[]): Promise<void>;
  /** The consumer begins anew, as another one. */
  reopen(): void;
  /** Stops listening and closes what is open, but for the connections of `kept`. */
  close(kept?: readonly Held[]): Promise<void>;
}
