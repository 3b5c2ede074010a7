import { isBytes, strictUtf8 } from '../../core/bytes.ts';
import { headersFrom } from '../../core/headers.ts';
import { NevertwiceError } from '../../errors.ts';
import type { Delivery, Headers } from '../../ports/delivery.ts';

type HeaderValue = string | Uint8Array;

/** What a producer sends. Copied at once: changing it afterwards changes no delivery. */
export interface MemoryMessage {
  /** Becomes the header `message-id`. A message without it has no id unless `headers` give one. */
  readonly id?: HeaderValue | undefined;
  /** What must stay in order: messages of one key share a partition. Bytes need not be UTF-8. */
  readonly key?: string | Uint8Array | undefined;
  readonly type?: string | undefined;
  readonly time?: Date | undefined;
  /** An object, or `[name, value]` pairs where a name repeats. A `message-id` that differs from `id` is ambiguous. */
  readonly headers?:
    | Readonly<Record<string, HeaderValue | readonly HeaderValue[]>>
    | readonly (readonly [string, HeaderValue])[]
    | undefined;
  /** The body as a value that `structuredClone` can copy; every delivery gets a copy of its own. */
  readonly body?: unknown;
  /** The body as undecoded bytes or text, instead of `body`. */
  readonly value?: Uint8Array | string | undefined;
  /** Default: by the hash of the key; without a key in turn. */
  readonly partition?: number | undefined;
}

/** A message in the broker's log. */
export interface MemoryRecord {
  readonly partition: number;
  readonly offset: bigint;
  /** `topic/partition/offset`. */
  readonly position: string;
  readonly id: HeaderValue | undefined;
  /** The key as text, or `base64:` and its bytes when they are not UTF-8. */
  readonly key: string | undefined;
  readonly keyBytes: Uint8Array | undefined;
  readonly type: string | undefined;
  readonly time: Date | undefined;
  readonly headers: Headers;
  readonly body: { readonly value: unknown } | undefined;
  readonly value: Uint8Array | string | undefined;
}

/** A record before it has a place in the log. */
export type MemoryContent = Omit<MemoryRecord, 'partition' | 'offset' | 'position'>;

/** @throws NevertwiceError NT_CONFIG for a body that cannot be copied, and when both `body` and `value` are given */
export function contentOf(message: MemoryMessage): MemoryContent {
  const { id, key, value } = message;
  if (value !== undefined && message.body !== undefined) {
    throw new NevertwiceError(
      'NT_CONFIG',
      'a message has both body and value, so what to deliver is unclear; give one',
    );
  }
  const keyBytes = key === undefined ? undefined : Buffer.from(key as string);
  return {
    id: copyOf(id),
    key: keyBytes && (strictUtf8(keyBytes) ?? `base64:${keyBytes.toString('base64')}`),
    keyBytes,
    type: message.type,
    time: message.time && new Date(message.time),
    headers: headersFrom([...(id === undefined ? [] : [pair('message-id', id)]), ...pairsOf(message.headers)]),
    body: value === undefined ? { value: copyOf(message.body) } : undefined,
    value: copyOf(value),
  };
}

/** One arrival of a record. Body and time are its own copies: a handler that changes them must not change the next try. */
export function deliveryOf(record: MemoryRecord, topic: string, attempt: number): Delivery {
  return {
    lane: `${topic}/${record.partition}`,
    position: record.position,
    attempt,
    headers: record.headers,
    key: record.key,
    type: record.type,
    time: record.time && new Date(record.time),
    value: copyOf(record.value),
    body: record.body && { value: copyOf(record.body.value) },
    topic,
    partition: record.partition,
    offset: record.offset,
    keyBytes: record.keyBytes,
  };
}

function* pairsOf(headers: MemoryMessage['headers']): Generator<readonly [string, HeaderValue]> {
  if (headers === undefined) return;
  const entries = Array.isArray(headers) ? headers : Object.entries(headers);
  for (const [name, values] of entries as [string, HeaderValue | readonly HeaderValue[]][]) {
    for (const value of Array.isArray(values) ? values : [values as HeaderValue]) yield pair(name, value);
  }
}

function pair(name: string, value: HeaderValue): readonly [string, HeaderValue] {
  return [name, copyOf(value)];
}

function copyOf<T>(value: T): T {
  // Not structuredClone for bytes: it would copy all of the pool that a small Buffer is a window of.
  if (isBytes(value)) return Buffer.from(value) as unknown as T;
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return value;
  try {
    return structuredClone(value);
  } catch (cause) {
    throw new NevertwiceError(
      'NT_CONFIG',
      'the body of a message cannot be copied, so it was not sent; give plain data without functions',
      { cause },
    );
  }
}
