import { isDeepStrictEqual } from 'node:util';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalText, MAX_DEPTH } from '../../src/identity/canonical.ts';
import { fingerprintOf, fingerprintOfBytes } from '../../src/identity/fingerprint.ts';

function nestedArrays(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i++) value = [value];
  return value;
}

function refusal(value: unknown): Error & { code?: string } {
  try {
    fingerprintOf(value);
  } catch (error) {
    expect(error).toMatchObject({ name: 'NevertwiceError', code: 'NT_BAD_MESSAGE' });
    expect((error as Error).message).not.toContain('\n');
    return error as Error;
  }
  throw new Error('expected a refusal');
}

/** The same value with the keys of every object in another order. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, item]) => [key, reordered(item)]),
  );
}

const json = fc.jsonValue({ maxDepth: 4 });
// -0 is 0, as JSON text does not keep the sign either.
const unsigned = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown;

test('a text is written as JSON writes it', () => {
  const unit = fc.oneof(
    fc.integer({ min: 0, max: 0xffff }).map(code => String.fromCharCode(code)),
    fc.constantFrom('"', '\\', '\n', 'a', '\u007f', '\ud83d\ude00'),
  );
  fc.assert(
    fc.property(fc.string({ unit }), text => {
      expect(canonicalText(text)).toBe(JSON.stringify(text));
    }),
    { numRuns: 2000 },
  );
});

describe('fingerprintOf', () => {
  test('is 16 bytes as lower-case hex, the same for ever: stored rows depend on it', () => {
    expect(fingerprintOf({ customer_id: 'c1', amount_cents: 250 })).toBe(
      fingerprintOfBytes('{"amount_cents":250,"customer_id":"c1"}'),
    );
    expect(fingerprintOfBytes('')).toBe('e3b0c44298fc1c149afbf4c8996fb924');
  });

  test('C45: equal exactly when the JSON values are', () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(fingerprintOf(a) === fingerprintOf(b)).toBe(isDeepStrictEqual(unsigned(a), unsigned(b)));
      }),
      { numRuns: 1000 },
    );
  });

  test('C45: the order of keys does not matter, the order of arrays does', () => {
    fc.assert(
      fc.property(json, value => {
        expect(fingerprintOf(reordered(value))).toBe(fingerprintOf(value));
      }),
    );
    fc.assert(
      fc.property(fc.array(json), items => {
        const backwards = items.toReversed();
        const same = isDeepStrictEqual(unsigned(items), unsigned(backwards));
        expect(fingerprintOf(items) === fingerprintOf(backwards)).toBe(same);
      }),
    );
    expect(fingerprintOf({ 10: 'a', 9: 'b', x: 1 })).toBe(fingerprintOf({ x: 1, 9: 'b', 10: 'a' }));
  });

  test('C45: one JSON text decoded twice, and a value that went through JSON, are the same', () => {
    fc.assert(
      fc.property(json, value => {
        expect(fingerprintOf(JSON.parse(JSON.stringify(value)))).toBe(fingerprintOf(value));
      }),
    );
  });

  test('C45: values that look alike are different', () => {
    const date = new Date('2024-05-01T00:00:00Z');
    const values: unknown[] = [
      1,
      '1',
      1n,
      true,
      'true',
      null,
      'null',
      undefined,
      'u',
      '',
      0,
      false,
      Number.NaN,
      'NaN',
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
      [],
      {},
      [[]],
      [null],
      [undefined],
      ['u'],
      [1, 2],
      [2, 1],
      ['1,2'],
      [[1], 2],
      { a: 1 },
      { a: '1' },
      { a: null },
      { 'a":1,"b': 2 },
      { a: 1, b: 2 },
      date,
      date.toISOString(),
      date.getTime(),
      `D${date.getTime()}`,
      new Date(Number.NaN),
      Buffer.from('a'),
      'a',
      [97],
      Buffer.from('a').toString('base64'),
      'B"YQ=="',
      Buffer.from('a').toJSON(),
      { 0: 97 },
      new Uint16Array([97]),
      new Int8Array([97]),
      new Uint8ClampedArray([97]),
      new ArrayBuffer(1),
      new DataView(new ArrayBuffer(1)),
      new Map(),
      new Set(),
      new Map([['a', 1]]),
      [['a', 1]],
      new Map([[1, 'a']]),
      new Set(['a', 1]),
      ['a', 1],
      new Set([['a', 1]]),
      'M[]',
      'S[]',
      '1n',
      '\ud800',
      '\\ud800',
      '\ufffd',
      { toJSON: 1 },
      JSON.parse('{"__proto__":{"a":1}}'),
    ];
    const texts = values.map(value => canonicalText(value));
    expect(texts.filter((text, i) => texts.indexOf(text) !== i)).toEqual([]);
    expect(new Set(values.map(fingerprintOf)).size).toBe(values.length);
  });

  test.each<[string, unknown, unknown]>([
    ['an undefined property and an absent one', { a: undefined, b: 1 }, { b: 1 }],
    ['a function or symbol property and an absent one', { a: () => 1, b: Symbol('x') }, {}],
    ['a hole and undefined', new Array(1), [undefined]],
    ['-0 and 0', -0, 0],
    ['Buffer and Uint8Array', Buffer.from('a'), new Uint8Array([97])],
    ['a view on part of a buffer', Buffer.from('xay').subarray(1, 2), Buffer.from('a')],
    [
      'Maps in another order',
      new Map([
        ['a', 1],
        ['b', 2],
      ]),
      new Map([
        ['b', 2],
        ['a', 1],
      ]),
    ],
    ['Sets in another order', new Set([1, { a: 1 }]), new Set([{ a: 1 }, 1])],
    ['toJSON and what it returns', { toJSON: () => ({ b: 1, a: 2 }) }, { a: 2, b: 1 }],
    ['a URL and its text', new URL('https://example.com/a'), 'https://example.com/a'],
    ['boxed and plain', [new Number(1), new String('a'), new Boolean(true)], [1, 'a', true]],
    [
      'a class instance and its properties',
      new (class {
        b = 1;
        a = 2;
      })(),
      { a: 2, b: 1 },
    ],
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
    [
      'a value from another realm',
      runInNewContext('({ a: [1, {}], d: new Date(5), m: new Map([[1, new Uint8Array([1])]]) })'),
      { a: [1, {}], d: new Date(5), m: new Map([[1, new Uint8Array([1])]]) },
    ],
    ['equal dates', new Date(5), new Date(5)],
  ])('C45: %s are the same', (_, a, b) => {
    expect(canonicalText(a)).toBe(canonicalText(b));
    expect(fingerprintOf(a)).toBe(fingerprintOf(b));
  });

  test('toJSON gets its key and is asked once, as in JSON', () => {
    const asked: unknown[] = [];
    const value = {
      toJSON(key: string) {
        asked.push(key);
        return { toJSON: 'no function', again: value === undefined };
      },
    };
    fingerprintOf({ at: [value], own: value });
    expect(asked).toEqual(['0', 'own']);
    const again: { toJSON: () => unknown; a: number } = { a: 1, toJSON: () => again };
    expect(fingerprintOf(again)).toBe(fingerprintOf({ a: 1 }));
  });

  test('C45: anything at all: a fingerprint or NT_BAD_MESSAGE, and the same for a clone', () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
      withSparseArray: true,
      withObjectString: true,
    });
    fc.assert(
      fc.property(anything, value => {
        expect(fingerprintOf(value)).toMatch(/^[0-9a-f]{32}$/);
        expect(fingerprintOf(structuredClone(value))).toBe(fingerprintOf(value));
      }),
      { numRuns: 500 },
    );
  });

  test('C45: a 1 MB body, and a change at its end', () => {
    const body = {
      lines: Array.from({ length: 20_000 }, (_, i) => ({ sku: `sku-${i}`, text: 'x'.repeat(30), n: i })),
      last: 1,
    };
    expect(JSON.stringify(body).length).toBeGreaterThan(1_000_000);
    expect(fingerprintOf(structuredClone(body))).toBe(fingerprintOf(body));
    expect(fingerprintOf({ ...body, last: 2 })).not.toBe(fingerprintOf(body));
    expect(fingerprintOf('x'.repeat(1_000_000))).not.toBe(fingerprintOf('x'.repeat(1_000_001)));
    expect(fingerprintOf(Buffer.alloc(1_000_000))).not.toBe(fingerprintOf(Buffer.alloc(1_000_001)));
  });

  test('C45: a body that refers back to itself is refused, with both ends of the loop', () => {
    const root: Record<string, unknown> = {};
    root.self = root;
    expect(refusal(root).message).toContain('at $.self: it refers back to $,');
    const order: Record<string, unknown> = { id: 1, lines: [{}, {}] };
    (order.lines as Record<string, unknown>[])[1]!.parent = order;
    expect(refusal({ order }).message).toContain('at $.order.lines[1].parent: it refers back to $.order,');
    const array: unknown[] = [];
    array.push([array]);
    expect(refusal(array).message).toContain('at $[0][0]: it refers back to $,');
    const map = new Map<string, unknown>();
    map.set('x', { map });
    expect(refusal({ map }).message).toContain('refers back to $.map,');
    expect(
      refusal({
        a: {
          toJSON() {
            return { me: this };
          },
        },
      }).message,
    ).toContain('refers back to $.a,');
    const odd: Record<string, unknown> = {};
    odd['line\nbreak "x"'] = odd;
    expect(refusal(odd).message).toContain('$["line\\nbreak \\"x\\""]');
  });

  test('the same object twice is no loop', () => {
    const shared = { a: 1 };
    expect(fingerprintOf({ x: shared, y: [shared, shared] })).toBe(
      fingerprintOf({ x: { a: 1 }, y: [{ a: 1 }, { a: 1 }] }),
    );
  });

  test('C45: nesting up to the limit works, deeper is a clear error and no overflow', () => {
    expect(fingerprintOf(nestedArrays(MAX_DEPTH))).toMatch(/^[0-9a-f]{32}$/);
    for (const levels of [MAX_DEPTH + 1, 100_000]) {
      const { message } = refusal(nestedArrays(levels));
      expect(message).toContain(`deeper than ${MAX_DEPTH} levels`);
      expect(message.length).toBeLessThan(200);
    }
    expect(refusal(JSON.parse(`${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`)).message).toContain('$.a.a');
    const fresh = (): unknown => ({ toJSON: () => ({ next: fresh() }) });
    expect(refusal(fresh()).message).toContain('deeper than');
  });

  test('C45: what cannot be told from others of its kind is refused by path, never hashed as {}', () => {
    class Hidden {
      #amount = 1;
      get amount() {
        return this.#amount;
      }
    }
    for (const value of [/a/, new Error('SECRET'), Promise.resolve(1), new WeakMap(), new Hidden()]) {
      const { message } = refusal({ order: { value } });
      expect(message).toContain('at $.order.value:');
      expect(message).not.toContain('SECRET');
    }
  });

  test('a getter or toJSON that throws is refused by path and kept as the cause', () => {
    const cause = new RangeError('SECRET');
    const getter = Object.defineProperty({}, 'x', {
      enumerable: true,
      get() {
        throw cause;
      },
    });
    for (const value of [
      getter,
      {
        toJSON() {
          throw cause;
        },
      },
    ]) {
      const error = refusal({ a: [value] });
      expect(error.message).toContain('at $.a[0]: reading it threw RangeError');
      expect(error.message).not.toContain('SECRET');
      expect(error.cause).toBe(cause);
    }
    expect(
      refusal({
        get a() {
          throw undefined;
        },
      }).message,
    ).toContain('reading it threw undefined');
  });
});

test('fingerprintOfBytes: a text is its UTF-8 bytes, and every byte counts', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), text => {
      expect(fingerprintOfBytes(Buffer.from(text))).toBe(fingerprintOfBytes(text));
      expect(fingerprintOfBytes(new Uint8Array(Buffer.from(text)))).toBe(fingerprintOfBytes(text));
      expect(fingerprintOfBytes(`${text} `)).not.toBe(fingerprintOfBytes(text));
    }),
  );
  expect(fingerprintOfBytes('{"id":15793596808644608}')).not.toBe(fingerprintOfBytes('{"id":15793596808644609}'));
});
