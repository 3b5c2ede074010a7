import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NevertwiceError, Unavailable } from '../../src/errors.ts';
import { BadId } from '../../src/identity/bad-id.ts';
import { header } from '../../src/identity/extractors.ts';
import {
  bodyOf,
  checkedId,
  type Identity,
  identityOf,
  identitySignature,
  MAX_ID_BYTES,
  toId,
  toOneId,
} from '../../src/identity/identity.ts';
import { lowerCaseUuid, nfc } from '../../src/identity/normalisers.ts';
import { badId, bytes, raw, unreadable } from './raw.ts';

/** An identity that returns a value whatever its type, as a user's own JavaScript may. */
const returning = (value: unknown): Identity => identityOf('test', () => value as string);

// Every rule holds for a value that an extractor found and for one that a user's own function returned.
const ways: [string, (value: unknown) => string][] = [
  ['toId', value => toId(value, 'header "message-id"')],
  ['checkedId', value => checkedId(returning(value), raw())],
  ['toOneId', value => toOneId([value, value], 'header "message-id"')],
];

const refused: [string, unknown, string][] = [
  ['undefined', undefined, 'missing'],
  ['null', null, 'missing'],
  ['the empty text', '', 'empty'],
  ['no bytes', new Uint8Array(0), 'empty'],
  ['spaces', '   ', 'empty'],
  ['tabs and line ends', '\t\r\n', 'empty'],
  ['no-break and ideographic spaces', '\u00a0\u3000\u2028', 'empty'],
  ['bytes of spaces', bytes('  '), 'empty'],
  ['{}', {}, 'wrong-type'],
  ['[]', [], 'wrong-type'],
  ['["a"]', ['a'], 'wrong-type'],
  ['true', true, 'wrong-type'],
  ['a function', () => 'a', 'wrong-type'],
  ['a symbol', Symbol('a'), 'wrong-type'],
  ['a promise', Promise.resolve('a'), 'wrong-type'],
  ['a String object', new String('a'), 'wrong-type'],
  ['a Buffer that went through JSON', bytes('m-1').toJSON(), 'wrong-type'],
  ['wide numbers', new Uint16Array([109]), 'wrong-type'],
  ['an ArrayBuffer', new ArrayBuffer(3), 'wrong-type'],
  ['NaN', Number.NaN, 'not-an-integer'],
  ['Infinity', Number.POSITIVE_INFINITY, 'not-an-integer'],
  ['1.5', 1.5, 'not-an-integer'],
  ['2^53', 2 ** 53, 'unsafe-number'],
  ['-(2^53)', -(2 ** 53), 'unsafe-number'],
  ['1e300', 1e300, 'unsafe-number'],
  ['a NUL inside', 'a\0b', 'nul'],
  ['a NUL in front', '\0a', 'nul'],
  ['a NUL in bytes', bytes('a\0'), 'nul'],
  ['a high surrogate alone', 'a\ud800', 'lone-surrogate'],
  ['a low surrogate alone', '\udc00a', 'lone-surrogate'],
  ['a pair the wrong way round', '\udc00\ud800', 'lone-surrogate'],
  ['a stray byte', Buffer.of(0x61, 0xff), 'not-utf8'],
  ['a cut sequence', bytes('é').subarray(0, 1), 'not-utf8'],
  ['a surrogate in UTF-8', Buffer.of(0xed, 0xa0, 0x80), 'not-utf8'],
  ['an overlong NUL', Buffer.of(0xc0, 0x80), 'not-utf8'],
  ['one byte too many', 'a'.repeat(MAX_ID_BYTES + 1), 'too-long'],
  ['too many bytes in few characters', '\u20ac'.repeat(MAX_ID_BYTES / 3 + 1), 'too-long'],
  ['a huge bigint', 10n ** 9000n, 'too-long'],
];

describe('ids', () => {
  describe.each(ways)('%s', (_, id) => {
    test.each(refused)('C27, C32, C33: %s is refused', (_name, value, reason) => {
      expect(badId(() => id(value)).reason).toBe(reason);
    });

    test.each<[string, unknown, string]>([
      ['text', 'm-1', 'm-1'],
      ['a Buffer', bytes('m-1'), 'm-1'],
      ['a Uint8Array', new Uint8Array(bytes('m-1')), 'm-1'],
      ['part of a larger Buffer', bytes('xxm-1yy').subarray(2, 5), 'm-1'],
      ['bytes of another realm', runInNewContext('new Uint8Array([109, 45, 49])'), 'm-1'],
      ['a number', 7, '7'],
      ['-0', -0, '0'],
      ['the largest safe integer', Number.MAX_SAFE_INTEGER, '9007199254740991'],
      ['a negative number', -12, '-12'],
      ['a bigint', 15793596808644609n, '15793596808644609'],
      ['white space around', ' a\t', ' a\t'],
      ['a control character', 'a\u0001b\n', 'a\u0001b\n'],
      ['a surrogate pair', '\u{1f600}', '\u{1f600}'],
      ['a real replacement character', bytes('a\ufffd'), 'a\ufffd'],
      ['a byte order mark', bytes('\ufeffa'), '\ufeffa'],
      ['as long as allowed', 'a'.repeat(MAX_ID_BYTES), 'a'.repeat(MAX_ID_BYTES)],
      ['as many bytes as allowed', `${'\u20ac'.repeat(2730)}ab`, `${'\u20ac'.repeat(2730)}ab`],
    ])('C31, C32: %s is taken as it is', (_name, value, expected) => {
      expect(id(value)).toBe(expected);
    });
  });

  test('C27: whatever the value, an id that stands for nothing else or a BadId', () => {
    const anything = fc.oneof(
      fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true }),
      fc.string({ unit: 'binary' }),
      fc.uint8Array(),
      fc.double(),
      fc.bigInt(),
      fc.constantFrom('', ' ', '7', 7, 7n),
    );
    const idOrReason = (value: unknown) => {
      try {
        return { id: checkedId(returning(value), raw()) };
      } catch (error) {
        expect(error).toBeInstanceOf(BadId);
        return { reason: (error as BadId).reason };
      }
    };
    const text = (value: unknown) => (value instanceof Uint8Array ? Buffer.from(value).toString() : String(value));
    fc.assert(
      fc.property(anything, anything, (a, b) => {
        const one = idOrReason(a);
        const other = idOrReason(b);
        if (one.id === undefined || other.id === undefined) return;
        expect(one.id === other.id).toBe(text(Object.is(a, -0) ? 0 : a) === text(Object.is(b, -0) ? 0 : b));
      }),
      { numRuns: 500 },
    );
  });

  test('C31: text and its bytes are the same id', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', minLength: 1 }).filter(s => s.trim() !== '' && !s.includes('\0')),
        s => {
          expect(toId(bytes(s), 'x')).toBe(s);
          expect(toId(new Uint8Array(bytes(s)), 'x')).toBe(toId(s, 'x'));
        },
      ),
    );
  });

  test('C32: 7, 7n, "7" and its byte are one id; 2^53 + 1 never becomes another number', () => {
    expect(new Set([7, 7n, '7', bytes('7'), JSON.parse('7.0')].map(v => toId(v, 'x')))).toEqual(new Set(['7']));
    const [a, b] = ['15793596808644608', '15793596808644609'].map(n => JSON.parse(`{"id":${n}}`) as { id: number });
    for (const body of [a, b]) {
      const error = badId(() => toId(body!.id, 'body path "id"'));
      expect(error.reason).toBe('unsafe-number');
      expect(error.message).toMatch(/as a string.*without loss/);
    }
  });

  test('C34: the error of a too long id names its length and the limit', () => {
    expect(badId(() => toId('\u20ac'.repeat(3000), 'x')).message).toContain('9000 bytes of UTF-8, the limit is 8192');
  });

  test('an error names the place and the remedy, never the value', () => {
    for (const value of [
      'SECRET\0',
      'SECRET\ud800',
      'SECRET'.repeat(2000),
      ['SECRET'],
      { SECRET: 1 },
      Symbol('SECRET'),
    ]) {
      const { message } = badId(() => toId(value, 'header "message-id"'));
      expect(message).toMatch(/^header "message-id" .*, so the message has no usable id; \S+/);
      expect(message).not.toContain('SECRET');
    }
    const differ = badId(() => toOneId(['SECRET-1', 'SECRET-2'], 'header "message-id"'));
    expect(differ.reason).toBe('ambiguous');
    expect(differ.message).not.toContain('SECRET');
  });

  test('C29: several values are one only when they are the same', () => {
    expect(toOneId(['7', 7, bytes('7'), 7n], 'x')).toBe('7');
    expect(badId(() => toOneId([], 'x')).reason).toBe('missing');
    for (const values of [
      ['a', 'b'],
      ['a', ' a'],
      ['a', ''],
      ['', 'a'],
      ['a', 'A'],
      ['a', 'a', 'b'],
    ]) {
      expect(badId(() => toOneId(values, 'x')).reason).toBe('ambiguous');
    }
    expect(badId(() => toOneId([null, 'a'], 'x')).reason).toBe('missing');
  });
});

describe('checkedId', () => {
  test('what the function itself throws is the cause of a BadId', () => {
    const boom = new TypeError('SECRET payload');
    const error = badId(() =>
      checkedId(
        identityOf('mine', () => {
          throw boom;
        }),
        raw(),
      ),
    );
    expect(error).toMatchObject({ reason: 'extractor-threw', cause: boom });
    expect(error.message).toContain('identity mine');
    expect(error.message).not.toContain('SECRET');
    const plain = badId(() =>
      checkedId(
        identityOf('mine', () => {
          throw 'text';
        }),
        raw(),
      ),
    );
    expect(plain).toMatchObject({ reason: 'extractor-threw', cause: 'text' });
  });

  test('a BadId passes as it is, other errors of the library do not', () => {
    const own = new BadId('missing', 'my field');
    expect(
      badId(() =>
        checkedId(
          identityOf('mine', () => {
            throw own;
          }),
          raw(),
        ),
      ),
    ).toBe(own);
    const down = new Unavailable('the registry');
    expect(
      badId(() =>
        checkedId(
          identityOf('mine', () => {
            throw down;
          }),
          raw(),
        ),
      ),
    ).toMatchObject({
      reason: 'extractor-threw',
      cause: down,
    });
  });

  test('a body that cannot be decoded is told from a fault of the function', () => {
    const cause = new NevertwiceError('NT_BAD_MESSAGE', 'no JSON');
    const mine = identityOf('mine', message => (message.body as { id: string }).id);
    expect(badId(() => checkedId(mine, unreadable(cause)))).toMatchObject({ reason: 'unreadable-body', cause });
    expect(badId(() => checkedId(mine, raw()))).toMatchObject({ reason: 'extractor-threw' });
    expect(badId(() => bodyOf(unreadable(cause), 'x'))).toMatchObject({ reason: 'unreadable-body', cause });
    // An id that is not in the body needs no body.
    expect(checkedId(header(), unreadable(cause, { 'message-id': 'm-1' }))).toBe('m-1');
  });

  test('a function that is async by mistake is refused, and its rejection does not end the process', async () => {
    const unhandled: unknown[] = [];
    const listen = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', listen);
    try {
      const error = badId(() => checkedId(returning(Promise.reject(new Error('late'))), raw()));
      expect(error.reason).toBe('wrong-type');
      expect(error.message).toContain('a promise');
      // Unhandled rejections are reported once the microtasks have run, before the next macrotask.
      await new Promise(resolve => setImmediate(resolve));
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', listen);
    }
  });

  test('the normaliser runs on a checked id, and its answer is checked too', () => {
    const seen: string[] = [];
    const normaliser = (answer: (id: string) => unknown) =>
      Object.assign(
        (id: string) => {
          seen.push(id);
          return answer(id) as string;
        },
        { signature: 'mine' },
      );
    expect(
      checkedId(
        returning(7),
        raw(),
        normaliser(id => `${id}!`),
      ),
    ).toBe('7!');
    expect(seen).toEqual(['7']);
    expect(
      badId(() =>
        checkedId(
          returning(''),
          raw(),
          normaliser(() => 'x'),
        ),
      ).reason,
    ).toBe('empty');
    expect(seen).toEqual(['7']);
    for (const [answer, reason] of [
      ['', 'empty'],
      ['\0', 'nul'],
      [undefined, 'missing'],
      [{}, 'wrong-type'],
    ] as const) {
      const error = badId(() =>
        checkedId(
          returning('a'),
          raw(),
          normaliser(() => answer),
        ),
      );
      expect(error.reason).toBe(reason);
      expect(error.message).toContain('normaliser mine');
    }
    const cause = new Error('x');
    const thrown = badId(() =>
      checkedId(
        returning('a'),
        raw(),
        normaliser(() => {
          throw cause;
        }),
      ),
    );
    expect(thrown).toMatchObject({ reason: 'extractor-threw', cause });
  });
});

describe('identitySignature', () => {
  test('changes with the extractor, the normaliser and the version', () => {
    expect(identitySignature(header())).toBe('p1|header:message-id|as-is|v1');
    expect(identitySignature(header(), nfc)).toBe('p1|header:message-id|nfc|v1');
    const all = [header(), header('x'), identityOf('header:x|as-is', () => ''), identityOf('header:x|nfc', () => '')];
    const signatures = all.flatMap(i => [undefined, nfc, lowerCaseUuid].map(n => identitySignature(i, n)));
    expect(new Set(signatures).size).toBe(12);
  });

  test('a function without a signature is refused at start-up', () => {
    const bare = (() => 'a') as unknown as Identity;
    expect(() => identitySignature(bare)).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
    expect(() => identitySignature(identityOf('', () => 'a'))).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
    expect(() => identitySignature(header(), ((id: string) => id) as never)).toThrow(/signature/);
  });
});
