import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type HeadersInput, headersFrom, headerValues, listHeaders } from '../../src/core/headers.ts';
import type { Headers as PortHeaders } from '../../src/ports/delivery.ts';
import { bytes } from './raw.ts';

/** The same headers in every shape that a client has; a plain object holds a repeated name as a list. */
function shapes(pairs: readonly (readonly [string, unknown])[]): [string, HeadersInput][] {
  const grouped: Record<string, unknown> = Object.create(null);
  for (const [name, value] of pairs) {
    grouped[name] = name in grouped ? [grouped[name], value].flat() : value;
  }
  return [
    ['pairs', pairs],
    ['pairs with names as bytes', pairs.map(([name, value]) => [bytes(name), value] as const)],
    ['single-key objects', pairs.map(([name, value]) => ({ [name]: value }))],
    ['plain object', grouped],
    ['map', new Map(Object.entries(grouped))],
  ];
}

const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_-]{0,8}$/);
const value = fc.oneof(fc.string({ unit: 'grapheme' }), fc.uint8Array().map(Buffer.from), fc.uint8Array());

describe('headers', () => {
  test('C29: every client shape gives the same values, names without regard to case', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(name, fc.array(value, { minLength: 1, maxLength: 3 })), {
          selector: ([n]) => n.toLowerCase(),
          maxLength: 4,
        }),
        groups => {
          const pairs = groups.flatMap(([n, values]) => values.map(v => [n, v] as const));
          for (const [shape, input] of shapes(pairs)) {
            const headers: PortHeaders = headersFrom(input);
            for (const [n, values] of groups) {
              expect(headers.getAll(n.toUpperCase()), shape).toEqual(values);
              expect(headers.get(n.toLowerCase()), shape).toBe(Buffer.from(values[0]!).toString('utf8'));
            }
            expect(headers.get('absent-from-all'), shape).toBeUndefined();
            expect(headers.getAll('absent-from-all'), shape).toEqual([]);
          }
        },
      ),
    );
  });

  test('C29: one name in two spellings is a repeated header', () => {
    expect(headersFrom({ 'Message-Id': 'a', 'message-id': 'b' }).getAll('MESSAGE-ID')).toEqual(['a', 'b']);
  });

  test('values come as the client gave them, and nothing is copied', () => {
    const value = bytes('m-1');
    expect(headersFrom({ id: value }).getAll('id')[0]).toBe(value);
    expect(headersFrom([{ id: value }]).getAll('id')[0]).toBe(value);
  });

  test('undefined is absent, null has no text, numbers and booleans and tables are text', () => {
    const headers = headersFrom({
      a: undefined,
      b: null,
      c: 7,
      d: false,
      e: 12n,
      f: { x: [1] },
      g: [undefined, null, 'z'],
      h: { n: 1n },
    });
    expect(headers.get('a')).toBeUndefined();
    expect(headers.getAll('b')).toEqual([]);
    expect(headers.get('b')).toBeUndefined();
    expect(['c', 'd', 'e', 'f', 'g', 'h'].map(n => headers.get(n))).toEqual([
      '7',
      'false',
      '12',
      '{"x":[1]}',
      'z',
      '[object Object]',
    ]);
    expect(headers.getAll('g')).toEqual(['z']);
    expect(headers.getAll('c')).toEqual(['7']);
  });

  test('C32: the raw value keeps the type that getAll turns into text', () => {
    const headers = headersFrom({ id: [15793596808644608, null, 'x'], none: undefined });
    expect(headerValues(headers, 'ID')).toEqual([15793596808644608, null, 'x']);
    expect(headerValues(headers, 'none')).toEqual([]);
  });

  test('inherited properties are no headers', () => {
    const headers = headersFrom(Object.create({ id: 'inherited' }));
    expect(headers.get('id')).toBeUndefined();
    expect(headersFrom({}).get('constructor')).toBeUndefined();
  });

  test("no input, input that is no headers, and fetch's own headers", () => {
    for (const input of [undefined, null, 'text', 7, [1, 'x', null, [1, 2]]]) {
      expect(headersFrom(input as HeadersInput).getAll('0')).toEqual([]);
      expect(listHeaders(headersFrom(input as HeadersInput))).toEqual([]);
    }
    expect(headersFrom(new Headers({ 'Message-Id': 'a' }) as unknown as HeadersInput).get('message-id')).toBe('a');
  });

  test('headers of another implementation pass through, without a list', () => {
    const foreign = { get: () => 'a', getAll: () => ['a'] };
    expect(headersFrom(foreign)).toBe(foreign);
    expect(headerValues(foreign, 'id')).toEqual(['a']);
    expect(listHeaders(foreign)).toEqual([]);
    const ours = headersFrom({ id: 'a' });
    expect(headersFrom(ours)).toBe(ours);
  });

  test('C31: bytes from another realm are bytes', () => {
    const foreign = runInNewContext('new Uint8Array([109, 45, 49])') as Uint8Array;
    expect(foreign instanceof Uint8Array).toBe(false);
    expect(headersFrom({ id: foreign }).get('id')).toBe('m-1');
    expect(headersFrom([[foreign, 'x']]).get('m-1')).toBe('x');
  });

  test('the list for dead letters has every value, and the same for every shape', () => {
    const pairs = [
      ['B', 'x'],
      ['a', bytes('é')],
      ['a', ''],
      ['n', 7],
    ] as const;
    for (const [shape, input] of shapes(pairs)) {
      expect(listHeaders(headersFrom(input)), shape).toEqual([
        ['B', 'x'],
        ['a', 'é'],
        ['a', ''],
        ['n', '7'],
      ]);
    }
    expect(listHeaders(headersFrom({ a: undefined, b: null, c: [undefined] }))).toEqual([['b', '']]);
  });

  test('C33: what the list holds is storable as text and can be undone', () => {
    fc.assert(
      fc.property(fc.oneof(value, fc.string({ unit: 'binary-ascii' }), fc.constant('base64:AA==')), v => {
        const [[, text] = ['', '']] = listHeaders(headersFrom({ h: v }));
        const back = text.startsWith('base64:') ? Buffer.from(text.slice(7), 'base64') : bytes(text);
        expect(text).not.toContain('\0');
        expect(back.equals(Buffer.from(v))).toBe(true);
      }),
    );
    expect(listHeaders(headersFrom({ h: Buffer.of(0xff, 0xfe) }))).toEqual([['h', 'base64://4=']]);
    expect(listHeaders(headersFrom({ 'a\0b': 'x' }))[0]![0]).toBe(`base64:${bytes('a\0b').toString('base64')}`);
  });
});
