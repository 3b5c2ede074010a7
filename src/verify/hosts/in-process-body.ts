import { setImmediate as nextTurn } from 'node:timers/promises';
import type { VerifyMessage } from '../options.ts';
import type { Body, Ears } from './body.ts';
import type { ToChild } from './protocol.ts';
import { type Broker, Requests } from './requests.ts';

/** A handler in this process, as `VerifyOptions.handler` makes it. */
export interface InProcessHandler {
  handle(message: any, broker: Broker & { readonly attempt: number }): unknown;
  /** Called when this consumer is no longer needed. */
  close?(): unknown;
}

/** Makes a consumer of its own for the servers that these variables lead to. */
export type HandlerFactory = (
  env: Readonly<Record<string, string>>,
) => InProcessHandler | InProcessHandler['handle'] | Promise<InProcessHandler | InProcessHandler['handle']>;

/**
 * A handler in this process. It cannot be killed: a crash is that all its connections end and no new one is let through, so
 * that whatever its `catch` and `finally` still do reaches nobody.
 */
export async function inProcessBody(
  factory: HandlerFactory,
  batch: boolean,
  env: Readonly<Record<string, string>>,
  ears: Ears,
): Promise<Body> {
  const made = await factory(env);
  const handler: InProcessHandler = typeof made === 'function' ? { handle: made } : made;
  const requests = new Requests(message => ears.heard(message));
  let ended = false;

  async function deliver(delivery: number, messages: readonly VerifyMessage[], attempt: number): Promise<void> {
    let error: string | undefined;
    try {
      await handler.handle(batch ? messages : messages[0], { ...requests.broker, attempt });
    } catch (thrown) {
      error = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
    }
    await nextTurn();
    if (!ended) ears.heard({ say: 'done', delivery, ...(error === undefined ? {} : { error }) });
  }

  return {
    tell(message: ToChild) {
      if (message.say === 'answer') requests.answered(message.request, message.error);
      else if (message.say === 'ping') setImmediate(() => ears.heard({ say: 'pong' }));
      // In its own turn, as from another process.
      else setImmediate(() => void deliver(message.delivery, message.messages, message.attempt));
    },
    async end() {
      ended = true;
      // Its connections are gone: what it wants to say goodbye to does not answer.
      Promise.resolve(handler.close?.()).catch(() => undefined);
    },
  };
}
