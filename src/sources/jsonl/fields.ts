import { Fault } from './fault.ts';

type Entry = readonly [string, unknown] | Readonly<Record<string, unknown>>;

const NONE: readonly Entry[] = Object.freeze([]);

/** A text, or undefined where there is none. */
export function textIn(name: string, value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return value;
  throw new Fault(`has a ${name} that is not a string`);
}

/** A key may also be a number, which becomes its decimal text. */
export function keyIn(value: unknown): string | undefined {
  refuseUnsafe('key', value);
  return typeof value === 'number' ? String(value) : textIn('key', value);
}

/**
 * JSON.parse rounds integers beyond 2^53, and then different ids are equal. Only the line's author can repair that, so
 * the rounded number must not get as far as becoming a text.
 */
export function refuseUnsafe(name: string, value: unknown): void {
  if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
    throw new Fault(`holds the ${name} as a number beyond 2^53: send it as a string`);
  }
}

/**
 * Headers as a list: from an object, whose values may be lists; from `[name, value]` pairs; or from the flat list of
 * names and values that kcat prints.
 */
export function headersIn(value: unknown): readonly Entry[] {
  if (value === undefined || value === null) return NONE;
  if (typeof value !== 'object') throw new Fault('has headers that are neither an object nor a list');
  if (!Array.isArray(value)) {
    for (const name in value) refuseUnsafeHeader((value as Record<string, unknown>)[name]);
    return [value as Record<string, unknown>];
  }
  const pairs = value.length > 0 && !Array.isArray(value[0]) ? flatPairs(value) : value;
  for (const pair of pairs) {
    if (!Array.isArray(pair) || pair.length !== 2 || typeof pair[0] !== 'string') {
      throw new Fault('has a list of headers that is not made of names and values');
    }
    refuseUnsafeHeader(pair[1]);
  }
  return pairs;
}

function flatPairs(list: readonly unknown[]): unknown[] {
  return Array.from({ length: Math.ceil(list.length / 2) }, (_, i) => list.slice(2 * i, 2 * i + 2));
}

function refuseUnsafeHeader(value: unknown): void {
  if (typeof value === 'number') refuseUnsafe('header', value);
  else if (Array.isArray(value)) for (const one of value) refuseUnsafe('header', one);
}

// RFC 3339, with seconds optional; a date alone is its midnight in UTC. A local time would mean another instant on
// another machine, so it needs its zone.
const ISO = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d))?$/i;
const WITHOUT_ZONE = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?$/i;

/** A time as ISO text or as milliseconds since 1970. */
export function timeIn(name: string, value: unknown): Date | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string' && WITHOUT_ZONE.test(value)) {
    throw new Fault(`has a ${name} without a time zone: add Z or an offset`);
  }
  const usable = typeof value === 'number' || (typeof value === 'string' && ISO.test(value));
  const time = new Date(usable ? value : Number.NaN);
  if (Number.isNaN(time.getTime())) {
    throw new Fault(`has a ${name} that is neither ISO 8601 text nor milliseconds since 1970`);
  }
  return time;
}
