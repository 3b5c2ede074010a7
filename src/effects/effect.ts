export interface EffectOptions {
  /**
   * What the call is about. Fingerprinted with the intent: the same step of the same message with other arguments is refused,
   * since the downstream would refuse the key or, worse, answer for the first ones. Not stored.
   */
  readonly args?: unknown;
  /**
   * A process died, or lost its connection, between the call and the record of its result. `retry` (default) calls again with the
   * same key: right where the downstream honours it. `hold` calls no more and sets the message aside until a person has decided.
   * `mayRepeat` calls again, and says that a rare second effect is accepted; each is counted in `summary.repeatedEffects`.
   */
  readonly onUnknown?: 'retry' | 'hold' | 'mayRepeat';
}

/**
 * Calls something outside the transaction (charges a card, sends a mail) once for each message and name, and returns what it
 * returned, as JSON gives it back: on a redelivery without a call. `key` is the same in every try; send it downstream as the
 * idempotency key. Pass `signal` on. A rejection is passed on and not stored: the outcome is unknown then, unless it was a
 * `Reject` or a `NotDone`.
 *
 * @throws NT_CONFIG for a name that this message has used already, or on a consumer without `effects`
 */
export type Effect = <R>(name: string, call: EffectCall<R>, options?: EffectOptions) => Promise<R>;

export type EffectCall<R> = (c: { readonly key: string; readonly signal: AbortSignal }) => Promise<R>;

/**
 * Thrown by a call that certainly had no effect (429, 503 before any work, a refused connection): the next try calls again, also
 * with `onUnknown: 'hold'`. The handler gets its cause.
 */
export class NotDone extends Error {
  constructor(cause: unknown) {
    super('the effect did not happen', { cause });
    this.name = 'NotDone';
  }
}
