import { describeError, NevertwiceError, Reject, Unavailable } from '../errors.ts';
import type { Destination, PublishedMessage } from './destination.ts';

export interface HttpDestinationOptions {
  /** Where each message is posted: one URL, or what a function makes of the message. */
  readonly url: string | URL | ((message: PublishedMessage) => string | URL);
  /** Sent with each request, such as `authorization`. They win over the message's own. Never shown in errors. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

/** Says nothing about the message: the server, or what stands before it, cannot or will not work for us now. */
const DOWN: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 407, 408, 421, 425, 429, 502, 503, 504]);

/** A header's value as HTTP has it, without line ends and control characters. */
const PLAIN = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Posts each message to an HTTP endpoint and takes a 2xx for the acknowledgement. With it go `idempotency-key` and
 * `message-id`, both the id; `message-topic`, `message-key`, and `message-sequence`, which rises within a key: an endpoint
 * that keeps no ids refuses what is not above the last one it has seen of the key (with a 2xx, since it has it), as long as it
 * keeps that number.
 *
 * 401 to 405, 407, 408, 421, 425, 429 and 502 to 504 pause the relay, like a connection that fails; every other answer is a
 * refused try of this message. Redirects are not followed.
 */
export function httpDestination(options: HttpDestinationOptions): Destination {
  const { url, headers: own = {}, fetch = globalThis.fetch } = options;
  if (typeof url !== 'function' && !URL.canParse(String(url))) {
    throw new NevertwiceError('NT_CONFIG', 'httpDestination: url is no absolute URL');
  }
  return {
    name: `http ${typeof url === 'function' ? 'by a function' : new URL(url).origin}`,
    async publish(message, { signal }) {
      const to = typeof url === 'function' ? url(message) : url;
      const init = {
        method: 'POST',
        headers: headersOf(message, own),
        body: bodyOf(message),
        redirect: 'manual',
      } as const;
      const answer = await fetch(to, { ...init, signal }).catch(cause => {
        throw new Unavailable(`the endpoint (${describeError(cause?.cause ?? cause)})`, { cause });
      });
      // Nobody reads it, and the connection is free again.
      await answer.body?.cancel().catch(() => undefined);
      if (answer.ok) return;
      if (DOWN.has(answer.status)) throw new Unavailable(`the endpoint (${answer.status})`);
      throw new Error(`the endpoint answered ${answer.status}`);
    },
  };
}

function bodyOf({ payload }: PublishedMessage): Uint8Array<ArrayBuffer> {
  return payload as Uint8Array<ArrayBuffer>;
}

function headersOf(message: PublishedMessage, own: Readonly<Record<string, string>>): Headers {
  const headers = new Headers({ 'content-type': message.json ? 'application/json' : 'application/octet-stream' });
  const set = (name: string, value: string) => {
    // No other try makes it one.
    if (!PLAIN.test(value)) throw new Reject(`the header ${name} cannot be sent over HTTP as it is`);
    headers.set(name, value);
  };
  for (const [name, value] of Object.entries(message.headers)) set(name, value);
  set('idempotency-key', message.id);
  set('message-topic', encodeURIComponent(message.topic));
  if (message.key !== undefined) set('message-key', encodeURIComponent(message.key));
  set('message-sequence', String(message.sequence));
  for (const [name, value] of Object.entries(own)) headers.set(name, value);
  return headers;
}
