/** Splits a byte stream of PostgreSQL's protocol 3 into whole messages. */
export class Messages {
  #unread: Buffer = Buffer.alloc(0);
  /** The first message of a client has no type. */
  #started: boolean;

  constructor(side: 'client' | 'server') {
    this.#started = side === 'server';
  }

  push(data: Buffer): void {
    this.#unread = this.#unread.length === 0 ? data : Buffer.concat([this.#unread, data]);
  }

  next(): Message | undefined {
    const head = this.#started ? 1 : 0;
    if (this.#unread.length < head + 4) return undefined;
    const length = head + this.#unread.readUInt32BE(head);
    if (this.#unread.length < length) return undefined;
    const bytes = this.#unread.subarray(0, length);
    this.#unread = this.#unread.subarray(length);
    return { type: head === 0 ? '' : String.fromCharCode(bytes[0]!), bytes, body: bytes.subarray(head + 4) };
  }

  /** The start-up packet has been seen: from now on every message has a type. */
  started(): void {
    this.#started = true;
  }
}

export interface Message {
  /** One letter; empty for a start-up packet. */
  readonly type: string;
  readonly bytes: Buffer;
  readonly body: Buffer;
}

export function codeOf(startup: Message): number {
  return startup.body.readUInt32BE(0);
}
export const CANCEL_REQUEST = 80877102;
export const SSL_REQUEST = 80877103;
export const GSS_REQUEST = 80877104;

function cString(body: Buffer, at: number): { readonly text: string; readonly end: number } {
  const end = body.indexOf(0, at);
  return { text: body.toString('utf8', at, end), end: end + 1 };
}

/** What is asked for, on one line: parameters are filled in as a person would write them. */
export class Statements {
  readonly #prepared = new Map<string, string>();
  readonly #portals = new Map<string, string>();

  /** The text of one unit: what a `Query` says, or what the `Execute`s up to a `Sync` do. */
  textOf(unit: readonly Message[]): string {
    const texts: string[] = [];
    for (const message of unit) {
      const { type, body } = message;
      if (type === 'Q') texts.push(cString(body, 0).text);
      else if (type === 'P') this.#parse(body);
      else if (type === 'B') this.#bind(body);
      else if (type === 'E') texts.push(this.#portals.get(cString(body, 0).text) ?? 'EXECUTE');
      else if (type === 'C' && body[0] === 0x53) this.#prepared.delete(cString(body, 1).text);
    }
    return oneLine(texts.join('; '));
  }

  #parse(body: Buffer): void {
    const name = cString(body, 0);
    this.#prepared.set(name.text, cString(body, name.end).text);
  }

  #bind(body: Buffer): void {
    const portal = cString(body, 0);
    const name = cString(body, portal.end);
    let at = name.end;
    const formats = Array.from({ length: body.readUInt16BE(at) }, (_, i) => body.readUInt16BE(at + 2 + 2 * i));
    at += 2 + 2 * formats.length;
    const count = body.readUInt16BE(at);
    at += 2;
    const values: string[] = [];
    for (let i = 0; i < count; i++) {
      const length = body.readInt32BE(at);
      at += 4;
      if (length < 0) {
        values.push('NULL');
        continue;
      }
      const bytes = body.subarray(at, at + length);
      at += length;
      const binary = (formats.length === 1 ? formats[0] : formats[i]) === 1;
      values.push(binary ? `'\\x${bytes.toString('hex')}'` : literal(bytes.toString('utf8')));
    }
    const text = this.#prepared.get(name.text) ?? `EXECUTE ${name.text}`;
    this.#portals.set(
      portal.text,
      text.replace(/\$(\d+)/g, (all, n) => values[Number(n) - 1] ?? all),
    );
  }
}

function literal(text: string): string {
  return /^-?\d{1,15}(\.\d+)?$/.test(text) ? text : `'${text.replaceAll("'", "''")}'`;
}

export function oneLine(text: string): string {
  return text
    .replace(/--[^\n]*\n/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/;$/, '');
}

/** `INSERT 0 1` and the like, or the SQLSTATE of an error, from the replies of one unit. */
export class Outcome {
  readonly #said: string[] = [];
  #error: string | undefined;

  add({ type, body }: Message): void {
    if (type === 'C') this.#said.push(body.toString('utf8', 0, body.length - 1));
    else if (type === 'E') this.#error ??= errorOf(body);
  }

  get failed(): boolean {
    return this.#error !== undefined;
  }

  get text(): string {
    return this.#error ?? this.#said.join(', ');
  }
}

function errorOf(body: Buffer): string {
  const fields = new Map<string, string>();
  for (let at = 0; body[at] !== 0; ) {
    const { text, end } = cString(body, at + 1);
    fields.set(String.fromCharCode(body[at]!), text);
    at = end;
  }
  return `${fields.get('C') ?? 'error'}: ${fields.get('M') ?? ''}`;
}

// The first is what postgres.js asks once on each connection: a process that is used again does not ask.
const QUIET =
  /^(?:select b\.oid, b\.typarray|BEGIN|START TRANSACTION|SET|SHOW|RESET|SAVEPOINT|RELEASE|DISCARD|DEALLOCATE|LISTEN|UNLISTEN|SELECT 1$|SELECT (?:pg_catalog\.)?(?:version|set_config)\()(?![^;]*;)/i;

/** What shows nothing to anybody else and takes nothing from them: no other consumer can tell when it ran. */
export function isQuiet(text: string): boolean {
  return text === '' || QUIET.test(text);
}
