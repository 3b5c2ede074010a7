import fc from 'fast-check';
import { expect, test } from 'vitest';
import { joinParts } from '../../src/identity/join.ts';

const tricky = fc.string({ unit: fc.constantFrom('a', '|', '%', '7', 'c', ':', '\0', '\n', '\x9f'), maxLength: 4 });
const parts = fc.array(fc.oneof(tricky, fc.string({ unit: 'binary' })), { maxLength: 4 });
const same = (a: string[], b: string[]) => a.length === b.length && a.every((part, i) => part === b[i]);

test('C41: different parts never give the same text', () => {
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      expect(joinParts(a) === joinParts(b)).toBe(same(a, b));
    }),
    { numRuns: 5000 },
  );
  const lists = [[], [''], ['', ''], ['a', 'b:c'], ['a:b', 'c'], ['a|b', 'c'], ['a', 'b|c'], ['a%7cb', 'c'], ['a|b|c']];
  expect(new Set(lists.map(joinParts)).size).toBe(lists.length);
});

test('C41: the text can be taken apart again', () => {
  const apart = (text: string) =>
    text
      .split('|')
      .slice(1)
      .map(part => part.replace(/%(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))));
  fc.assert(
    fc.property(parts, a => {
      expect(apart(joinParts(a))).toEqual(a);
    }),
    { numRuns: 2000 },
  );
});

test('the text is versioned and printable', () => {
  expect(joinParts(['/orders', '1'])).toBe('p1|/orders|1');
  expect(joinParts(['a|b', 'c%', '\0\n\x7f\x85'])).toBe('p1|a%7cb|c%25|%00%0a%7f%85');
  fc.assert(
    fc.property(parts, a => {
      expect(joinParts(a)).not.toMatch(/\p{Cc}/u);
    }),
  );
});
