/** A value of RESP2 or RESP3. */
export interface RespValue {
  /** The byte that it began with; `_` for each of the three ways to write a null. */
  readonly type: string;
  /** Of what is not a list. */
  readonly text: Buffer;
  /** Of lists, sets, pushes and maps; a map has its keys and values in turn. */
  readonly items: readonly RespValue[];
}

export interface Framed<T> {
  readonly value: T;
  readonly bytes: Buffer;
}

const NONE = Buffer.alloc(0);
const NULL: RespValue = { type: '_', text: NONE, items: [] };

/** Splits a byte stream at the ends of what `parse` finds in it. */
class Splitter<T> {
  readonly #parse: (buffer: Buffer) => { readonly value: T; readonly end: number } | undefined;
  #unread: Buffer = NONE;

  constructor(parse: (buffer: Buffer) => { readonly value: T; readonly end: number } | undefined) {
    this.#parse = parse;
  }

  push(data: Buffer): void {
    this.#unread = this.#unread.length === 0 ? data : Buffer.concat([this.#unread, data]);
  }

  /** @throws NotResp */
  next(): Framed<T> | undefined {
    if (this.#unread.length === 0) return undefined;
    const found = this.#parse(this.#unread);
    if (found === undefined) return undefined;
    const bytes = this.#unread.subarray(0, found.end);
    this.#unread = this.#unread.subarray(found.end);
    return { value: found.value, bytes };
  }

  /** What came after the last whole one. */
  rest(): Buffer {
    const rest = this.#unread;
    this.#unread = NONE;
    return rest;
  }
}

/** What a server says. */
export class Replies extends Splitter<RespValue> {
  constructor() {
    super(buffer => valueAt(buffer, 0));
  }
}

/** What a client asks for, each as its arguments; an empty line has none. */
export class Requests extends Splitter<readonly Buffer[]> {
  constructor() {
    super(requestIn);
  }
}

export class NotResp extends Error {}

function lineAt(buffer: Buffer, at: number): { readonly line: Buffer; readonly end: number } | undefined {
  const end = buffer.indexOf('\r\n', at);
  return end === -1 ? undefined : { line: buffer.subarray(at, end), end: end + 2 };
}

type Parsed = { readonly value: RespValue; readonly end: number };

function valueAt(buffer: Buffer, at: number): Parsed | undefined {
  const head = lineAt(buffer, at + 1);
  if (head === undefined) return undefined;
  const type = String.fromCharCode(buffer[at]!);
  switch (type) {
    case '+':
    case '-':
    case ':':
    case ',':
    case '#':
    case '(':
      return { value: { type, text: head.line, items: [] }, end: head.end };
    case '_':
      return { value: NULL, end: head.end };
    case '$':
    case '=':
    case '!': {
      const length = lengthOf(head.line);
      if (length < 0) return { value: NULL, end: head.end };
      const end = head.end + length + 2;
      return buffer.length < end
        ? undefined
        : { value: { type, text: buffer.subarray(head.end, end - 2), items: [] }, end };
    }
    case '*':
    case '~':
    case '>': {
      const length = lengthOf(head.line);
      return length < 0 ? { value: NULL, end: head.end } : listAt(buffer, head.end, type, length);
    }
    case '%':
      return listAt(buffer, head.end, type, 2 * lengthOf(head.line));
    case '|': {
      const attributes = listAt(buffer, head.end, type, 2 * lengthOf(head.line));
      // They say something about the value behind them, and are no reply by themselves.
      return attributes === undefined || attributes.end >= buffer.length ? undefined : valueAt(buffer, attributes.end);
    }
    default:
      throw new NotResp(`not RESP: ${JSON.stringify(buffer.toString('latin1', at, at + 20))}`);
  }
}

function listAt(buffer: Buffer, at: number, type: string, length: number): Parsed | undefined {
  const items: RespValue[] = [];
  let end = at;
  while (items.length < length) {
    const item = end < buffer.length ? valueAt(buffer, end) : undefined;
    if (item === undefined) return undefined;
    items.push(item.value);
    end = item.end;
  }
  return { value: { type, text: NONE, items }, end };
}

function lengthOf(line: Buffer): number {
  const text = line.toString('latin1');
  if (!/^-?\d+$/.test(text)) throw new NotResp(`not a length: ${JSON.stringify(text.slice(0, 20))}`);
  return Number(text);
}

function requestIn(buffer: Buffer): { readonly value: readonly Buffer[]; readonly end: number } | undefined {
  if (buffer[0] === 0x2a) {
    const found = valueAt(buffer, 0);
    return found === undefined ? undefined : { value: found.value.items.map(item => item.text), end: found.end };
  }
  // As a person types it.
  const end = buffer.indexOf('\n');
  if (end === -1) return undefined;
  return { value: wordsOf(buffer.toString('utf8', 0, end)), end: end + 1 };
}

function wordsOf(line: string): readonly Buffer[] {
  const words = line.match(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\S+/g) ?? [];
  return words.map(word => Buffer.from(/^(["']).*\1$/.test(word) ? word.slice(1, -1).replace(/\\(.)/g, '$1') : word));
}

/** A request as clients send it. */
export function requestOf(args: readonly (string | Buffer)[]): Buffer {
  const parts: Buffer[] = [Buffer.from(`*${args.length}\r\n`)];
  for (const arg of args) {
    const bytes = Buffer.from(arg);
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n'));
  }
  return Buffer.concat(parts);
}
