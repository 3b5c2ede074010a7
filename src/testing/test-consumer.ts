import { type HeadersInput, headersFrom } from '../core/headers.ts';
import type { Consumer } from '../create-consumer.ts';
import { isNevertwiceError, NevertwiceError } from '../errors.ts';
import { systemClock } from '../ports/clock.ts';
import type { Delivery } from '../ports/delivery.ts';
import type { Step } from '../ports/points.ts';
import type { Store } from '../ports/store.ts';
import { Gates, type Held } from './gates.ts';
import { TestSource } from './test-source.ts';

export type { Held } from './gates.ts';

/** A message for a test. `id` becomes the header `message-id`, which is the default identity. */
export interface TestMessage {
  readonly id?: string;
  readonly type?: string;
  readonly key?: string;
  readonly time?: Date;
  readonly headers?: Readonly<Record<string, string | Uint8Array>>;
  readonly body?: unknown;
  /** Times that the broker has handed it over, this one included. Default 1. */
  readonly attempt?: number;
}

/** What became of one delivery: acked as one of the first five, or not acked at all. */
export type DeliveryResult = 'processed' | 'duplicate' | 'conflict' | 'dead-lettered' | 'ignored' | 'not acked';

export interface TestConsumer {
  /**
   * One delivery. Resolves when the consumer is done with it. Rejects like `consumer.run` when the consumer could not
   * start or has broken, and with NT_STOPPED once it has stopped.
   */
  deliver(message: TestMessage): Promise<DeliveryResult>;
  /** The same message again after the first was done: a redelivery whose ack was lost. */
  deliverTwice(message: TestMessage): Promise<readonly [DeliveryResult, DeliveryResult]>;
  /** The copies at once, the others arriving while the first one's handler is about to run. */
  deliverOverlapping(message: TestMessage, copies?: number): Promise<readonly DeliveryResult[]>;
  /**
   * Holds the next message that comes to a named point (optionally only the one with this id) until it is released:
   *
   *     const held = t.hold('record', 'before');
   *     const first = t.deliver(message);
   *     await held.reached;          // the handler has run, nothing is committed
   *     held.release();
   */
  hold(step: Step, edge: 'before' | 'after', id?: string): Held;
  /** Stops the consumer and waits for it; call it at the end of the test. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const NO_SLOT_MS = 250;

/**
 * Runs the user's own consumer, on its own store and with its real handler, and delivers to it what a test wants. Uses no
 * test runner, so it is at home in all of them.
 *
 * Starts the consumer and does not wait for it: that it cannot start is what the first delivery rejects with.
 */
export async function testConsumer(
  consumer: Consumer,
  options: { readonly store?: Store } = {},
): Promise<TestConsumer> {
  const source = new TestSource();
  const gates = new Gates();
  let ended: { readonly error: unknown } | undefined;
  const howItEnded = () => ended;
  const end = (error: unknown) => {
    ended = { error };
    gates.end(error);
  };
  const running = consumer.run({ source, points: gates, ...options }).then(() => end(stopped()), end);
  let deliveries = 0;

  const deliver = async (message: TestMessage): Promise<DeliveryResult> => {
    const before = howItEnded();
    if (before !== undefined) throw before.error;
    const settled = source.deliver(deliveryFrom(message, ++deliveries));
    const verdict = await Promise.race([settled, running.then(() => undefined)]);
    if (verdict !== undefined) return verdict as DeliveryResult;
    const after = howItEnded();
    if (after !== undefined && !isNevertwiceError(after.error, 'NT_STOPPED')) throw after.error;
    return 'not acked';
  };
  const stop = async () => {
    gates.end(stopped());
    await consumer.stop();
    await running;
  };
  return {
    deliver,
    deliverTwice: async message => [await deliver(message), await deliver(message)],
    async deliverOverlapping(message, copies = 2) {
      const first = gates.hold('handle', 'before', message.id);
      const results: Promise<DeliveryResult>[] = [];
      const deliverNext = (): Promise<DeliveryResult> => {
        const result = deliver(message);
        // Whatever goes wrong first is what this call rejects with.
        result.catch(() => undefined);
        results.push(result);
        return result;
      };
      try {
        // A first copy that is a duplicate or refused never gets to its handler.
        await Promise.race([first.reached, deliverNext()]);
        while (results.length < copies) {
          const claiming = gates.hold('claim', 'before', message.id);
          // With concurrency 1 no second lane is worked on, and the copies come one after the other.
          await Promise.race([claiming.reached, deliverNext(), systemClock.sleep(NO_SLOT_MS)]).finally(
            claiming.release,
          );
        }
      } finally {
        first.release();
      }
      return Promise.all(results);
    },
    hold: (step, edge, id) => gates.hold(step, edge, id),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function stopped(): NevertwiceError {
  return new NevertwiceError('NT_STOPPED', 'the consumer has stopped; start another testConsumer');
}

/** The `n`th delivery, as the broker hands it over. */
export function deliveryFrom(message: TestMessage, n: number): Delivery {
  const headers: HeadersInput =
    message.id === undefined ? (message.headers ?? {}) : { 'message-id': message.id, ...message.headers };
  return {
    lane: `test/${n}`,
    position: `test/${n}`,
    attempt: message.attempt ?? 1,
    headers: headersFrom(headers),
    key: message.key,
    type: message.type,
    time: message.time,
    body: { value: message.body },
  };
}
