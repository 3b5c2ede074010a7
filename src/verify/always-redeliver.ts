/** A copy that keeps failing after the other is done would be poison for a broker, too. */
const TRIES = 3;

/**
 * A handler for ordinary integration tests: every message is delivered twice, the second time while the first is at work. What
 * fails beside the other comes again alone, as from a broker. Whoever tests with it finds on his way what a single delivery
 * never shows; `verify` finds the rest.
 *
 *     consume(queue, alwaysRedeliver(onPayment))
 *
 * Resolves when both copies are done. Rejects with what a copy failed with when it had come alone, three times.
 */
export function alwaysRedeliver<A extends readonly unknown[]>(
  handler: (...args: A) => unknown,
): (...args: A) => Promise<void> {
  return async (...args) => {
    const both = await Promise.allSettled([deliver(handler, args), deliver(handler, args)]);
    for (const { status } of both) if (status === 'rejected') await again(handler, args);
  };
}

/** Also of a handler that throws before it returns a promise. */
async function deliver<A extends readonly unknown[]>(handler: (...args: A) => unknown, args: A): Promise<void> {
  await handler(...args);
}

async function again<A extends readonly unknown[]>(handler: (...args: A) => unknown, args: A): Promise<void> {
  for (let left = TRIES; ; left--) {
    try {
      return await deliver(handler, args);
    } catch (error) {
      if (left === 1) throw error;
    }
  }
}
