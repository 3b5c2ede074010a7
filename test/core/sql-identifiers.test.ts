import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { quoteIdentifier } from '../../src/stores/sql/identifiers.ts';

const fits = (name: string) => name !== '' && !name.includes('\0') && Buffer.byteLength(name) <= 63;

describe('names of tables and schemas', () => {
  test('any name that fits comes back whole from its quotes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 63 }).filter(fits), name => {
        const quoted = quoteIdentifier(name);
        expect(quoted.startsWith('"') && quoted.endsWith('"')).toBe(true);
        const inside = quoted.slice(1, -1);
        expect(inside.replaceAll('""', '')).not.toContain('"');
        expect(inside.replaceAll('""', '"')).toBe(name);
      }),
    );
  });

  test.each([
    ['empty', ''],
    ['with a NUL', 'a\0b'],
    ['64 bytes', 'a'.repeat(64)],
    ['64 bytes in 16 emoji', '😀'.repeat(16)],
    ['undefined', undefined],
    ['a number', 7],
  ])('%s is refused by name', (_, name) => {
    expect(() => quoteIdentifier(name as string)).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
  });

  test('63 bytes are not too many', () => {
    expect(quoteIdentifier(`${'😀'.repeat(15)}abc`)).toBe(`"${'😀'.repeat(15)}abc"`);
  });
});
