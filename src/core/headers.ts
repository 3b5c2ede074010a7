import { asBuffer, isBytes, strictUtf8, utf8 } from './bytes.ts';

/** What `headersFrom` makes; the port's `Headers` by shape. Declared here because core imports nothing outside core. */
export interface HeaderList {
  /** The first value as text, or undefined. Bytes are read as UTF-8; what is not UTF-8 becomes U+FFFD. */
  get(name: string): string | undefined;
  /** Every value in order, strings and bytes as the client gave them, other values as text. Nulls are left out. */
  getAll(name: string): readonly (string | Uint8Array)[];
}

type Name = string | Uint8Array;

/**
 * The shapes in which clients give headers. Values are strings or bytes, or a list of them for a repeated name; AMQP
 * also has numbers, booleans and tables, Kafka also null. Names match without regard to case and may be bytes.
 *
 * - a plain object: kafkajs, amqplib, Node's HTTP
 * - a list of single-key objects: node-rdkafka
 * - a list of `[name, value]` pairs
 * - a `Map`, or another collection that can be iterated again, such as fetch's `Headers`
 * - headers that are already `get` and `getAll`: returned as they are
 */
export type HeadersInput =
  | HeaderList
  | Iterable<readonly [Name, unknown] | Readonly<Record<string, unknown>>>
  | Readonly<Record<string, unknown>>
  | null
  | undefined;

// A registered symbol and not a class check: two copies of the package in one process must read each other's headers.
const INPUT: unique symbol = Symbol.for('nevertwice.headers') as never;

class ClientHeaders implements HeaderList {
  readonly [INPUT]: object;

  constructor(input: object) {
    this[INPUT] = input;
  }

  get(name: string): string | undefined {
    for (const value of valuesIn(this[INPUT], name)) if (value !== null) return asText(value);
    return undefined;
  }

  getAll(name: string): readonly (string | Uint8Array)[] {
    const values = valuesIn(this[INPUT], name);
    if (values.every(isStringOrBytes)) return values;
    return values.filter(value => value !== null).map(value => (isStringOrBytes(value) ? value : asText(value)));
  }
}

const NONE: readonly never[] = Object.freeze([]);
const EMPTY = new ClientHeaders(NONE);

/**
 * Headers over what a client gave. Keeps a reference and copies nothing until a value is asked for: the input must not
 * be changed afterwards. Never throws; what is no header contributes none.
 */
export function headersFrom(input: HeadersInput): HeaderList {
  if (typeof input !== 'object' || input === null) return EMPTY;
  if (isHeaderList(input)) return input;
  return new ClientHeaders(input);
}

/**
 * Every value of a header as the client gave it, with the types that `getAll` turns into text (numbers, booleans,
 * tables) and with nulls; what an id must be judged by, since the text of an unsafe number hides that it was rounded.
 */
export function headerValues(headers: HeaderList, name: string): readonly unknown[] {
  const input = (headers as Partial<ClientHeaders>)[INPUT];
  return input === undefined ? headers.getAll(name) : valuesIn(input, name);
}

/**
 * All headers as `[name, text]` in order, a repeated name once per value, for dead letters. A value that a text column
 * cannot hold without loss (bytes that are not UTF-8, a NUL) is `base64:` and its bytes, and so is a text that itself
 * begins with `base64:`. Null is the empty text. `[]` for headers of another implementation, which cannot be listed.
 */
export function listHeaders(headers: HeaderList): readonly (readonly [string, string])[] {
  const input = (headers as Partial<ClientHeaders>)[INPUT];
  if (input === undefined) return NONE;
  const pairs: (readonly [string, string])[] = [];
  eachEntry(input, (name, value) => {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) pairs.push([storable(name), storable(one === null ? '' : one)]);
    }
  });
  return pairs;
}

/** All headers in order as `[name, value]`, a repeated name once per value, with the bytes that came. `[]` as above. */
export function headerPairs(headers: HeaderList): readonly (readonly [string, string | Uint8Array])[] {
  const input = (headers as Partial<ClientHeaders>)[INPUT];
  if (input === undefined) return NONE;
  const pairs: (readonly [string, string | Uint8Array])[] = [];
  eachEntry(input, (name, value) => {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one === undefined) continue;
      pairs.push([asText(name), one === null ? '' : isStringOrBytes(one) ? one : asText(one)]);
    }
  });
  return pairs;
}

function isHeaderList(input: object): input is HeaderList {
  const { get, getAll } = input as Partial<HeaderList>;
  return typeof get === 'function' && typeof getAll === 'function';
}

function eachEntry(input: object, visit: (name: Name, value: unknown) => void): void {
  if (Symbol.iterator in input) {
    for (const entry of input as Iterable<unknown>) {
      if (Array.isArray(entry)) {
        if (typeof entry[0] === 'string' || isBytes(entry[0])) visit(entry[0], entry[1]);
      } else if (typeof entry === 'object' && entry !== null) {
        eachProperty(entry, visit);
      }
    }
  } else {
    eachProperty(input, visit);
  }
}

function eachProperty(input: object, visit: (name: string, value: unknown) => void): void {
  for (const name of Object.keys(input)) visit(name, (input as Record<string, unknown>)[name]);
}

function valuesIn(input: object, name: string): readonly unknown[] {
  const wanted = name.toLowerCase();
  let found: unknown[] | undefined;
  // Without a function for each: this is asked for every header of every message.
  if (!(Symbol.iterator in input)) {
    for (const given in input) {
      if (!isName(given, wanted) || !Object.hasOwn(input, given)) continue;
      found = withValue(found, (input as Record<string, unknown>)[given]);
    }
    return found ?? NONE;
  }
  eachEntry(input, (given, value) => {
    if (isName(typeof given === 'string' ? given : utf8(given), wanted)) found = withValue(found, value);
  });
  return found ?? NONE;
}

function isName(text: string, wanted: string): boolean {
  return text === wanted || (text.length === wanted.length && text.toLowerCase() === wanted);
}

function withValue(found: unknown[] | undefined, value: unknown): unknown[] | undefined {
  if (value === undefined) return found;
  if (!Array.isArray(value)) {
    if (found === undefined) return [value];
    found.push(value);
    return found;
  }
  const all = found ?? [];
  for (const one of value) if (one !== undefined) all.push(one);
  return all;
}

function isStringOrBytes(value: unknown): value is string | Uint8Array {
  return typeof value === 'string' || isBytes(value);
}

function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (isBytes(value)) return utf8(value);
  if (typeof value !== 'object') return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value); // circular, or a bigint inside: its kind is still worth listing
  }
}

const BASE64 = 'base64:';

function storable(value: unknown): string {
  const text = isBytes(value) ? strictUtf8(value) : asText(value);
  if (text !== undefined && !text.includes('\0') && !text.startsWith(BASE64)) return text;
  const bytes = isBytes(value) ? asBuffer(value) : Buffer.from(text ?? '', 'utf8');
  return BASE64 + bytes.toString('base64');
}
