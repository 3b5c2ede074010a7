import { strictUtf8 } from '../../core/bytes.ts';
import { headersFrom } from '../../core/headers.ts';
import type { Delivery } from '../../ports/delivery.ts';
import { Fault } from './fault.ts';
import { headersIn, keyIn, refuseUnsafe, textIn, timeIn } from './fields.ts';
import type { Line } from './lines.ts';

/** Where deliveries come from: their lane, and what their positions begin with. */
export interface Origin {
  readonly lane: string;
  readonly name: string;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * A line as a delivery. One that cannot be read is a delivery too, with a `fault` and the bytes of the line as `value`,
 * so that it becomes a dead letter and stops nobody.
 */
export function deliveryFrom(line: Line, origin: Origin): Delivery {
  try {
    const fields = parse(line);
    return isKcat(fields) ? fromKcat(fields, line, origin) : fromPlain(fields, line, origin);
  } catch (error) {
    if (error instanceof Fault) return faulty(line, line.to, error.message, origin);
    throw error;
  }
}

/** A delivery that only says why it could not be read, with a copy of the line up to `to`. */
export function faulty(line: Line, to: number, problem: string, { lane, name }: Origin): Delivery {
  return {
    lane,
    position: positionOf(line, name),
    attempt: 1,
    headers: headersFrom(undefined),
    key: undefined,
    type: undefined,
    time: undefined,
    value: Buffer.from(line.buffer.subarray(line.from, to)),
    fault: `line ${line.start.line + 1} ${problem}`,
  };
}

/** Whether a line without a line end is all there. Only an object tells: `12` may be the begin of `123`. */
export function isCompleteObject(line: Line): boolean {
  try {
    parse(line);
    return true;
  } catch (error) {
    if (error instanceof Fault) return false;
    throw error;
  }
}

function positionOf(line: Line, name: string): string {
  return `${name}:${line.start.line + 1}`;
}

function parse({ buffer, from, to }: Line): Fields {
  const text = buffer.toString('utf8', from, to);
  // The check proper needs a window of the buffer, which costs as much as the text; and without this character in the
  // text it cannot fail.
  if (text.includes('\uFFFD') && strictUtf8(buffer.subarray(from, to)) === undefined) throw new Fault('is not UTF-8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Fault('is not JSON'); // the parser's own words would show a piece of the line
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Fault('is not a JSON object');
  return value as Fields;
}

/** `{ id, type, key, time, headers, body }`; only `body` must be there. */
function fromPlain(fields: Fields, line: Line, { lane, name }: Origin): Delivery {
  if (!Object.hasOwn(fields, 'body')) throw new Fault('has neither a body nor a payload');
  const { id } = fields;
  const headers = headersIn(fields.headers);
  refuseUnsafe('id', id);
  return {
    lane,
    position: positionOf(line, name),
    attempt: 1,
    // Both when `headers` hold an id too: if they differ, the identity must see it and call it ambiguous.
    headers: headersFrom(id === undefined || id === null ? headers : [['message-id', id] as const, ...headers]),
    key: keyIn(fields.key),
    type: textIn('type', fields.type),
    time: timeIn('time', fields.time),
    body: { value: fields.body },
  };
}

function isKcat(fields: Fields): boolean {
  if (!Object.hasOwn(fields, 'payload') || Object.hasOwn(fields, 'body')) return false;
  return ['topic', 'partition', 'offset'].every(name => Object.hasOwn(fields, name));
}

/** What `kcat -J` prints. The payload is the message's own text, still to be decoded. */
function fromKcat(fields: Fields, line: Line, { lane, name }: Origin): Delivery {
  const { partition, offset, payload } = fields;
  if (!Number.isSafeInteger(partition)) throw new Fault('has a partition that is not an integer');
  if (!Number.isSafeInteger(offset)) throw new Fault('has an offset that is not an integer below 2^53');
  for (const failed of ['payload_error', 'key_error']) {
    if (Object.hasOwn(fields, failed)) throw new Fault(`says ${failed}: kcat could not decode the message`);
  }
  return {
    lane,
    position: positionOf(line, name),
    attempt: 1,
    headers: headersFrom(headersIn(fields.headers)),
    key: keyIn(fields.key),
    type: undefined,
    // A broker without a timestamp for the message says 0 or -1.
    time: typeof fields.ts === 'number' && fields.ts <= 0 ? undefined : timeIn('ts', fields.ts),
    // With a deserialiser (`-s value=avro`) kcat prints a value; and null for a tombstone.
    ...(typeof payload === 'string' ? { value: payload } : { body: { value: payload } }),
    topic: textIn('topic', fields.topic),
    partition: partition as number,
    offset: BigInt(offset as number),
  };
}
