import type { Gate, Held } from '../gate.ts';
import type { VerifyMessage } from '../options.ts';
import type { BrokerRequest } from './protocol.ts';

/** How a consumer came to rest. */
export type Rest =
  /** It has asked for something, which is held, or has nothing to do. */
  | 'still'
  /** It does nothing that anybody can see, and has not ended. */
  | 'silent'
  | 'exited';

/** A consumer: a process with the user's handler, and gates in front of all that it talks to. */
export interface Host {
  /** What it has asked for and nobody has decided about, oldest first. */
  readonly held: readonly Held[];
  /** True from `deliver` until the broker has heard what came of it. */
  readonly working: boolean;
  readonly exited: boolean;
  /** What it did past the gates. */
  readonly ungated: ReadonlySet<string>;
  /** Resolves when it waits for a decision, has nothing to do, has ended, or has been silent for `thinkMs`. */
  rest(thinkMs: number): Promise<Rest>;
  /** The handler has read the clock of its process. */
  readonly readsClock: boolean;
  /** Hands it a delivery, with its clock so far ahead; `onAsked` answers what it asks the broker. */
  deliver(messages: readonly VerifyMessage[], attempt: number, aheadMs: number, onAsked: (asked: Asked) => Held): void;
  /** Takes a request from the list: somebody has decided about it. */
  take(held: Held): void;
  /** Ends it at once, as SIGKILL does; what is in `kept` may still land. */
  kill(kept: readonly Held[]): Promise<void>;
  /**
   * Cuts it off from everything for good: whatever it still does reaches nobody. As good as `kill` for all that others can see,
   * and it costs no new process.
   */
  sever(kept: readonly Held[]): Promise<void>;
  /** After `sever`: true when its handler has ended, and it can be another consumer. Otherwise it is killed. */
  recycle(): Promise<boolean>;
  /**
   * True when it is as it was before its first delivery, but for what it remembers. A connection that was cut may end a process
   * with a delay: where nobody listens for the error of an idle one.
   */
  settled(): Promise<boolean>;
  readonly proxies: readonly Gate[];
}

/** What a delivery asks the broker: by hand, or by how its handler ended. */
export type Asked =
  | { readonly by: 'hand'; readonly what: BrokerRequest; answer(error?: string): void }
  | { readonly by: 'end'; readonly error: string | undefined; answer(): void };
