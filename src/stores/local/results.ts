import { NevertwiceError } from '../../errors.ts';

/**
 * A handler's result as JSON text; NULL for none. What JSON would drop or change without a word is refused, since a copy
 * of the message would get something else than the first one did. What has a toJSON, as a Date has, is kept as that says.
 *
 * @throws NT_CONFIG naming what cannot be kept.
 */
export function resultText(result: unknown): string | null {
  if (result === undefined) return null;
  try {
    return JSON.stringify(result, refuse) ?? null;
  } catch (error) {
    if (error instanceof NevertwiceError) throw error;
    throw unfit('it refers to itself, or its toJSON failed', error);
  }
}

export function resultFrom(text: string | null): unknown {
  return text === null ? undefined : JSON.parse(text);
}

function refuse(name: string, value: unknown): unknown {
  const what = unfitKind(value);
  if (what === undefined) return value;
  throw unfit(`${name === '' ? 'it' : `"${name}" in it`} is ${what}`);
}

function unfitKind(value: unknown): string | undefined {
  switch (typeof value) {
    case 'bigint':
    case 'symbol':
    case 'function':
      return `a ${typeof value}`;
    case 'number':
      return Number.isFinite(value) ? undefined : String(value);
    case 'object':
      if (value instanceof Map || value instanceof Set) return `a ${value.constructor.name}`;
      return ArrayBuffer.isView(value) || value instanceof ArrayBuffer ? 'bytes' : undefined;
  }
  return undefined;
}

function unfit(why: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError(
    'NT_CONFIG',
    `localStore keeps a handler's result as JSON, and this one cannot be kept: ${why}; return plain values, or nothing`,
    { cause },
  );
}
