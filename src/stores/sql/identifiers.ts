import { NevertwiceError } from '../../errors.ts';

/** A table or schema name, quoted so that any name is safe. PostgreSQL cuts names beyond 63 bytes, so they are refused. */
export function quoteIdentifier(name: string): string {
  if (typeof name !== 'string' || name === '' || name.includes('\0') || Buffer.byteLength(name) > 63) {
    throw new NevertwiceError(
      'NT_CONFIG',
      `${JSON.stringify(name)} is no usable table or schema name: 1 to 63 bytes, no NUL`,
    );
  }
  return `"${name.replaceAll('"', '""')}"`;
}
