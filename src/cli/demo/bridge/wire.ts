import type { Delivery } from '../../../ports/delivery.ts';

// The broker lives in the parent, so that it survives when a service is killed; these are the messages between them.
// Processes are started with `serialization: 'advanced'`, which carries dates, bytes and bigints as they are.

/** A delivery on the wire: headers as pairs, since functions cannot travel, and a number to settle it by. */
export interface Ticket {
  readonly ticket: number;
  readonly delivery: Omit<Delivery, 'headers'>;
  readonly headers: readonly (readonly [string, string])[];
}

/** `delayMs` makes it a retry later; without it is an ack. */
export interface Settled {
  readonly ticket: number;
  readonly delayMs: number | undefined;
}

export type FromService =
  | { readonly op: 'join'; readonly consumer: string }
  | { readonly op: 'receive'; readonly call: number; readonly lane: number; readonly max: number }
  /** The answer to a `receive` is not wanted any more; it comes all the same, and soon. */
  | { readonly op: 'cancel'; readonly call: number }
  | { readonly op: 'settle'; readonly call: number; readonly lane: number; readonly settled: readonly Settled[] };

export type FromBroker =
  | { readonly op: 'lane'; readonly lane: number; readonly id: string }
  | { readonly op: 'revoked'; readonly lane: number }
  | { readonly op: 'received'; readonly call: number; readonly tickets: readonly Ticket[] }
  | { readonly op: 'settled'; readonly call: number }
  /** Everything is done: finish and end. */
  | { readonly op: 'stop' };
