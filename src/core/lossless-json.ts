/**
 * JSON text of a value; undefined for undefined. What JSON would drop or change without a word is refused, since whoever reads
 * it would get something else. What has a toJSON, as a Date has, is kept as that says.
 *
 * @throws what `refused` makes of the reason
 */
export function losslessJson(value: unknown, refused: (why: string, cause?: unknown) => Error): string | undefined {
  if (value === undefined) return undefined;
  class Unfit extends Error {}
  try {
    return JSON.stringify(value, (name, part) => {
      const kind = unfitKind(part);
      if (kind !== undefined) throw new Unfit(`${name === '' ? 'it' : `"${name}" in it`} is ${kind}`);
      return part;
    });
  } catch (error) {
    if (error instanceof Unfit) throw refused(error.message);
    throw refused('it refers to itself, or its toJSON failed', error);
  }
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
