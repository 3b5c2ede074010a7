import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { HeadersInput } from '../../src/core/headers.ts';
import { bodyPath, brokerId, header, naturalKey } from '../../src/identity/extractors.ts';
import { checkedId } from '../../src/identity/identity.ts';
import { badId, bytes, raw, unreadable } from './raw.ts';

const config = expect.objectContaining({ code: 'NT_CONFIG', retryable: false });

describe('header', () => {
  const id = (headers: HeadersInput) => checkedId(header(), raw({ headers }));

  test('C29: a repeated header is never a joined text and never its first value', () => {
    const a = { 'message-id': [bytes('a'), bytes('b')] };
    const c = [{ 'message-id': bytes('a') }, { 'message-id': bytes('b') }];
    const pairs = [
      ['message-id', 'a'],
      ['Message-Id', 'b'],
    ] as const;
    for (const headers of [a, c, pairs, new Map(Object.entries(a)), { 'message-id': 'a', 'MESSAGE-ID': 'b' }]) {
      const error = badId(() => id(headers as HeadersInput));
      expect(error.reason).toBe('ambiguous');
      expect(error.message).toContain('header "message-id"');
    }
    expect(id({ 'message-id': bytes('a,b') })).toBe('a,b');
    expect(id({ 'message-id': ['a', 'a'] })).toBe('a');
    expect(id([{ 'message-id': 'a' }, { 'Message-ID': bytes('a') }])).toBe('a');
  });

  test('C29: whatever the values, all equal or refused', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', 'a,b', ' a'), { minLength: 1, maxLength: 4 }), values => {
        const headers = { 'message-id': values.map((v, i) => (i % 2 ? bytes(v) : v)) };
        if (values.every(v => v === values[0])) expect(id(headers)).toBe(values[0]);
        else expect(badId(() => id(headers)).reason).toBe('ambiguous');
      }),
    );
  });

  test('C31: Buffer, string and Uint8Array are one id, whatever the client', () => {
    for (const value of [bytes('m-1'), 'm-1', new Uint8Array(bytes('m-1'))]) {
      for (const headers of [{ 'Message-Id': value }, [{ 'message-id': value }], new Map([['MESSAGE-ID', value]])]) {
        expect(id(headers as HeadersInput)).toBe('m-1');
      }
    }
  });

  test.each<[unknown, string]>([
    [undefined, 'missing'],
    [null, 'missing'],
    [[], 'missing'],
    ['', 'empty'],
    [bytes(' '), 'empty'],
    [{}, 'wrong-type'],
    [true, 'wrong-type'],
    [Number.NaN, 'not-an-integer'],
    [Buffer.of(0xff), 'not-utf8'],
    [15793596808644608, 'unsafe-number'],
  ])('C27, C32: a header with %s is refused', (value, reason) => {
    expect(badId(() => id({ 'message-id': value })).reason).toBe(reason);
  });

  test('C27: no header at all', () => {
    expect(badId(() => id(undefined)).message).toMatch(/^header "message-id" has no value/);
  });

  test('another name, and headers of another implementation', () => {
    expect(checkedId(header('X-Id'), raw({ headers: { 'x-id': 'a' } }))).toBe('a');
    const foreign = { get: () => 'a', getAll: () => ['a', bytes('b')] };
    expect(badId(() => id(foreign)).reason).toBe('ambiguous');
    expect(header('X-Id').signature).toBe(header('x-id').signature);
    for (const name of ['', ' ', 7 as never]) {
      expect(() => header(name)).toThrow(config);
    }
  });
});

describe('bodyPath', () => {
  const id = (path: string | string[], body: unknown) => checkedId(bodyPath(path), raw({ body }));

  test('follows own properties and array indexes', () => {
    expect(id('id', { id: 'a' })).toBe('a');
    expect(id('a.b.0.c', { a: { b: [{ c: 7 }] } })).toBe('7');
    expect(id('0', ['x'])).toBe('x');
    expect(id(['com.acme.id'], { 'com.acme.id': 'x' })).toBe('x');
    expect(id('__proto__.id', JSON.parse('{"__proto__":{"id":"own"}}'))).toBe('own');
  });

  test.each<[string, unknown]>([
    ['id', undefined],
    ['id', null],
    ['id', 'text'],
    ['0', 'text'],
    ['length', 'text'],
    ['length', ['a']],
    ['id', {}],
    ['constructor.name', {}],
    ['__proto__.id', Object.create({ id: 'x' })],
    ['toString', {}],
    ['0', bytes('x')],
    ['a.b', { a: null }],
    ['a.b', { a: 7 }],
    ['1', ['a']],
    ['00', ['a']],
    ['-1', ['a']],
    ['id', new Map([['id', 'x']])],
    ['a.b', { 'a.b': 'x' }],
    ['id', { id: null }],
  ])('C27: %s of %o is missing', (path, body) => {
    expect(badId(() => id(path, body)).reason).toBe('missing');
  });

  test('C32: a number that JSON.parse rounded is refused', () => {
    for (const text of ['{"id":15793596808644608}', '{"id":15793596808644609}']) {
      const error = badId(() => id('id', JSON.parse(text)));
      expect(error.reason).toBe('unsafe-number');
      expect(error.message).toContain('body path "id"');
    }
    expect(id('id', { id: 15793596808644609n })).toBe('15793596808644609');
  });

  test('an unreadable body is named', () => {
    const cause = new SyntaxError('x');
    expect(badId(() => checkedId(bodyPath('id'), unreadable(cause)))).toMatchObject({
      reason: 'unreadable-body',
      cause,
    });
  });

  test('the signature tells paths apart, and an empty path is refused at start-up', () => {
    expect(bodyPath(['a', 'b']).signature).toBe(bodyPath('a.b').signature);
    expect(bodyPath(['a.b']).signature).not.toBe(bodyPath('a.b').signature);
    expect(bodyPath(['a%2Eb']).signature).not.toBe(bodyPath(['a.b']).signature);
    for (const path of ['', 'a.', '.a', 'a..b', [], ['a', '']]) expect(() => bodyPath(path)).toThrow(config);
  });
});

describe('naturalKey', () => {
  const key = (answer: unknown) =>
    checkedId(
      naturalKey(() => answer, { name: 'order' }),
      raw(),
    );

  test('C41: parts are never mistaken for others', () => {
    const parts = fc.array(
      fc
        .oneof(fc.constantFrom('a', 'b', ':', '|', '%', '%7c', 'p1|', 'p1', 'a:b', 'a|b'), fc.string({ minLength: 1 }))
        .filter(s => s.trim() !== '' && !s.includes('\0') && s.isWellFormed()),
      { minLength: 1, maxLength: 3 },
    );
    const same = (a: string[], b: string[]) => a.length === b.length && a.every((part, i) => part === b[i]);
    fc.assert(
      fc.property(parts, parts, (a, b) => {
        expect(key(a) === key(b)).toBe(same(a, b));
      }),
      { numRuns: 2000 },
    );
    expect(key(['a', 'b:c'])).not.toBe(key(['a:b', 'c']));
    expect(key(['a', 'b'])).not.toBe(key(key(['a', 'b'])));
  });

  test('one value stays readable and equals a list of it; 7 and "7" are the same part', () => {
    expect(key('ord-1')).toBe('ord-1');
    expect(key(['ord-1'])).toBe('ord-1');
    expect(key(['t', 7])).toBe(key(['t', '7']));
  });

  test.each<[unknown, string, string]>([
    [[], 'missing', 'natural key "order"'],
    [['a', undefined], 'missing', 'part 2'],
    [['a', ''], 'empty', 'part 2'],
    // biome-ignore lint/suspicious/noSparseArray: the hole is what is tested
    [[, 'a'], 'missing', 'part 1'],
    [['a\0', 'b'], 'nul', 'part 1'],
    [['a', 2 ** 53], 'unsafe-number', 'part 2'],
    [['a', ['b']], 'wrong-type', 'part 2'],
    [undefined, 'missing', 'natural key "order"'],
  ])('C27: %o is refused as %s', (answer, reason, place) => {
    const error = badId(() => key(answer));
    expect(error.reason).toBe(reason);
    expect(error.message).toContain(place);
  });

  test('sees the message, has its name in the signature, and needs one', () => {
    const identity = naturalKey(message => (message.body as { n: number }).n, { name: 'number' });
    expect(checkedId(identity, raw({ body: { n: 7 } }))).toBe('7');
    expect(identity.signature).toBe('natural:number');
    expect(() => naturalKey(() => 'a', { name: '' })).toThrow(config);
  });
});

test('brokerId takes the id that the broker gave', () => {
  expect(checkedId(brokerId(), raw({ brokerId: 'amq-1' }))).toBe('amq-1');
  expect(badId(() => checkedId(brokerId(), raw())).reason).toBe('missing');
  expect(badId(() => checkedId(brokerId(), raw({ brokerId: '' }))).reason).toBe('empty');
});
