import { isBytes } from '../core/bytes.ts';
import { NevertwiceError } from '../errors.ts';

const MAX_DEPTH = 1_000;

/**
 * A payload as bytes: a Uint8Array as it is, anything else as JSON. What JSON would lose without a word is refused with the
 * path of the field; what has a `toJSON` of its own (a Date) has said what it wants to become.
 */
export function encodePayload(payload: unknown): { readonly json: boolean; readonly bytes: Uint8Array } {
  // A copy: the caller may use the memory again before it is written.
  if (isBytes(payload)) return { json: false, bytes: Uint8Array.from(payload) };
  assertJson(payload, []);
  return { json: true, bytes: Buffer.from(JSON.stringify(payload), 'utf8') };
}

function assertJson(given: unknown, path: (string | number)[]): void {
  switch (typeof given) {
    case 'string':
    case 'boolean':
      return;
    case 'number':
      if (!Number.isFinite(given)) refuse(path, `is ${given}, which JSON does not know`);
      return;
    case 'bigint':
      refuse(path, 'is a bigint, which JSON cannot hold; send it as text');
      break;
    case 'object':
      if (given !== null) assertObject(given, path);
      return;
    default:
      refuse(path, `is ${given === undefined ? 'undefined' : `a ${typeof given}`}, which JSON leaves out`);
  }
}

function assertObject(given: object, path: (string | number)[]): void {
  if (path.length > MAX_DEPTH) refuse(path.slice(0, 3), `refers to itself, or is nested deeper than ${MAX_DEPTH}`);
  const { toJSON } = given as { toJSON?: unknown };
  if (typeof toJSON === 'function' && !isBytes(given)) {
    assertOwnForm(given, path);
  } else if (given instanceof Number || given instanceof String || given instanceof Boolean) {
    assertJson(given.valueOf(), path);
  } else if (ArrayBuffer.isView(given) || given instanceof ArrayBuffer) {
    refuse(path, 'is bytes inside of JSON; encode it as text, or make the whole payload bytes');
  } else if (given instanceof Map || given instanceof Set) {
    refuse(path, `is a ${given instanceof Map ? 'Map' : 'Set'}, which JSON makes empty`);
  } else if (Array.isArray(given)) {
    // Not `forEach`, which steps over a hole.
    for (let i = 0; i < given.length; i++) assertInside(given[i], i, path);
  } else {
    for (const [name, value] of Object.entries(given)) {
      // As everywhere in JSON, a property that is undefined is one that is not there.
      if (value !== undefined) assertInside(value, name, path);
    }
  }
}

function assertInside(value: unknown, step: string | number, path: (string | number)[]): void {
  path.push(step);
  assertJson(value, path);
  path.pop();
}

function assertOwnForm(given: object, path: (string | number)[]): void {
  if (given instanceof Date) {
    if (Number.isNaN(given.getTime())) refuse(path, 'is an invalid Date');
    return;
  }
  const form = (given as { toJSON(key: string): unknown }).toJSON(String(path.at(-1) ?? ''));
  if (form !== given) assertJson(form, path);
}

function refuse(path: (string | number)[], why: string): never {
  const field = path.reduce<string>(
    (text, step) => text + (typeof step === 'number' ? `[${step}]` : `.${step}`),
    'payload',
  );
  throw new NevertwiceError('NT_BAD_MESSAGE', `outbox: ${field} ${why}`);
}
