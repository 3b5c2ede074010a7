import type { ContextOf } from '../context.ts';
import { headersFrom } from '../core/headers.ts';
import type { Inbox } from '../inbox.ts';
import type { Message } from '../ports/delivery.ts';
import type { Store } from '../ports/store.ts';
import type { Destination } from './destination.ts';

export interface InboxDestinationOptions<S extends Store> {
  /** An inbox on the other database: `createInbox({ name: 'shipping', store })`. */
  readonly inbox: Inbox<S>;
  /** What a message does there, in the transaction that records its id. The body is the JSON value, or the bytes. */
  readonly handle: (message: Message<any>, context: ContextOf<S>) => unknown;
}

/**
 * Takes messages over into another database, without a broker between: each is claimed in that database's inbox and handled in
 * the same transaction, so it takes effect there once, however often the relay repeats it. A dead letter there is an
 * acknowledgement here. `topic` is the message's type.
 */
export function inboxDestination<S extends Store>(options: InboxDestinationOptions<S>): Destination {
  const { inbox, handle } = options;
  return {
    name: 'an inbox',
    publish: ({ id, topic, key, headers, payload, json, addedAt, attempt }) =>
      inbox.process(
        {
          id,
          type: topic,
          key,
          time: addedAt,
          headers: headersFrom(headers),
          attempt,
          body: json ? (JSON.parse(Buffer.from(payload).toString('utf8')) as unknown) : payload,
        },
        handle,
      ),
  };
}
