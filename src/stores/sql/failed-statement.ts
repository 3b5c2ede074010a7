/**
 * A statement that failed and knows whether anybody has looked. `await` and the
 * combinators call `then` on it, since it is no plain promise.
 */
export class FailedStatement extends Promise<never> {
  static override get [Symbol.species]() {
    return Promise;
  }

  seen = false;
  readonly error: unknown;

  constructor(error: unknown) {
    super((_, reject) => reject(error));
    this.error = error;
    // The transaction itself reports a failure that nobody looks at, so Node need not end the process over it.
    super.then(undefined, () => undefined);
  }

  // biome-ignore lint/suspicious/noThenProperty: being asked is what this class is for.
  override then<A = never, B = never>(
    resolved?: ((value: never) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.seen = true;
    return super.then(resolved, rejected);
  }
}
