import { createHash, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeKey, encodeKey } from '../../src/identity/encoding.ts';

const uuid = '3f2b8c1e-0000-4000-8000-00000000abcd';
const hexOf = (key: Uint8Array) => Buffer.from(key).toString('hex');

// Ids close to every border of the encoding, and close to each other.
const nearUuid = fc
  .tuple(fc.uuid(), fc.nat(35), fc.constantFrom('-', 'A', 'g', '0', 'f', '/', ':', '`', '\u0661', '\u0130'))
  .map(([id, at, c]) => id.slice(0, at) + c + id.slice(at + 1));
const nearLimit = fc
  .tuple(fc.constantFrom(253, 254, 255, 256, 257, 3000), fc.constantFrom('a', 'é', '€', '\u{1f600}'), fc.nat(9))
  .map(([length, unit, last]) => unit.repeat(Math.floor((length - 1) / Buffer.byteLength(unit))) + last);
const id = fc
  .oneof(
    fc.uuid(),
    fc.uuid().map(u => u.toUpperCase()),
    fc.uuid().map(u => `{${u}}`),
    nearUuid,
    nearLimit,
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 300 }),
    fc.string({ unit: 'binary-ascii', minLength: 36, maxLength: 36 }),
  )
  .filter(s => s.isWellFormed());

describe('encodeKey', () => {
  test.each<[string, string, string]>([
    ['a UUID', uuid, '013f2b8c1e00004000800000000000abcd'],
    ['the nil UUID', '00000000-0000-0000-0000-000000000000', `01${'00'.repeat(16)}`],
    ['text', 'm-1', '026d2d31'],
    ['text beyond ASCII', 'é', '02c3a9'],
    ['a long id', 'a'.repeat(256), `03${createHash('sha256').update('a'.repeat(256)).digest('hex')}`],
  ])('%s has this key for ever: stored rows depend on it', (_, text, hex) => {
    expect(encodeKey(text).hex).toBe(hex);
    expect(hexOf(encodeKey(text).key)).toBe(hex);
  });

  test('the hex is the key, and the length follows the kind', () => {
    fc.assert(
      fc.property(id, text => {
        const { key, hex } = encodeKey(text);
        expect(hexOf(key)).toBe(hex);
        const canonical = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/.test(text) && text.length === 36;
        const size = Buffer.byteLength(text);
        expect([key[0], key.length]).toEqual(canonical ? [1, 17] : size <= 255 ? [2, 1 + size] : [3, 33]);
      }),
      { numRuns: 2000 },
    );
  });

  test('C34: different ids have different keys', () => {
    fc.assert(
      fc.property(fc.array(id, { minLength: 2, maxLength: 6 }), ids => {
        expect(new Set(ids.map(i => encodeKey(i).hex)).size).toBe(new Set(ids).size);
      }),
      { numRuns: 2000 },
    );
  });

  test('C34: long ids that do not compress, near-equal ones, and repeated letters', () => {
    const random = (length: number) => randomBytes(length).toString('hex').slice(0, length);
    const long = random(2999);
    const ids = [255, 256, 2048, 3000, 8192].flatMap(n => [random(n), 'a'.repeat(n)]).concat(`${long}a`, `${long}b`);
    const keys = ids.map(i => encodeKey(i));
    expect(new Set(keys.map(k => k.hex)).size).toBe(ids.length);
    for (const { key } of keys) expect(key.length).toBeLessThanOrEqual(256);
  });

  test('C39: upper case and braces are text, byte-exact', () => {
    for (const spelling of [uuid.toUpperCase(), `{${uuid}}`, uuid.replace('abcd', 'abcD')]) {
      expect(encodeKey(spelling).hex).toBe(`02${Buffer.from(spelling).toString('hex')}`);
    }
  });

  test('keys of one batch do not share memory that a later one overwrites', () => {
    const texts = Array.from({ length: 500 }, (_, i) =>
      i % 2 ? `order-${i}` : uuid.replace('0000', String(1000 + i)),
    );
    const keys = texts.map(t => encodeKey(t));
    expect(keys.map(k => hexOf(k.key))).toEqual(keys.map(k => k.hex));
    expect(keys.map(k => decodeKey(k.key))).toEqual(texts);
  });
});

describe('decodeKey', () => {
  test('gives the id back, or nothing for a digest', () => {
    fc.assert(
      fc.property(id, text => {
        const { key } = encodeKey(text);
        const plain = new Uint8Array(key);
        expect(decodeKey(key)).toBe(key[0] === 3 ? undefined : text);
        expect(decodeKey(plain)).toBe(decodeKey(key));
      }),
      { numRuns: 2000 },
    );
  });

  test.each([
    ['nothing', ''],
    ['a tag alone', '02'],
    ['a short UUID', '01aabb'],
    ['a long UUID', `01${'00'.repeat(17)}`],
    ['an unknown tag', '04616263'],
    ['text that is not UTF-8', '02ff'],
    ['text too long', `02${'61'.repeat(256)}`],
  ])('%s is no key', (_, hex) => {
    expect(decodeKey(Buffer.from(hex, 'hex'))).toBeUndefined();
  });

  test('any bytes: never an error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), key => {
        expect(typeof decodeKey(key)).toMatch(/string|undefined/);
      }),
    );
  });
});
