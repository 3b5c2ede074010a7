import { isBytes } from '../core/bytes.ts';

// An array also owns `length`, which is no element.
const INDEX = /^(?:0|[1-9][0-9]*)$/;

/** An own property of an object, or an element of an array; undefined for everything else, inherited ones included. */
export function ownValue(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || isBytes(value)) return undefined;
  if (Array.isArray(value) && !INDEX.test(name)) return undefined;
  return Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}
