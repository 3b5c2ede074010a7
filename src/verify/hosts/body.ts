import type { Held } from '../gate.ts';
import type { FromChild, ToChild } from './protocol.ts';

/** What runs a handler: a process of its own, or a function in this one. It says what it hears and is told by `ToChild`. */
export interface Body {
  tell(message: ToChild): void;
  /** Ends it; nothing is heard of it afterwards. */
  end(): Promise<void>;
}

/** What a body says, and that it is no more. */
export interface Ears {
  heard(message: FromChild): void;
  /** It asks for something that is held in itself: a statement of SQLite. */
  hold(held: Held): void;
  ended(): void;
}

/** The handler could not be started: nothing can be said about it. */
export class HandlerBroken extends Error {}
