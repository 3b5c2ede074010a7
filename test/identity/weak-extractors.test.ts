import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { contentHash, header, position, recordHash } from '../../src/identity/extractors.ts';
import { checkedId, type RawMessage } from '../../src/identity/identity.ts';
import { badId, bytes, raw, unreadable } from './raw.ts';

describe('contentHash', () => {
  const id = (fields: Parameters<typeof raw>[0]) => checkedId(contentHash(), raw(fields));

  test('C46: two orders with equal bodies: apart by their ids, merged by their content', () => {
    const order = { customer_id: 'c1', amount_cents: 250 };
    const [o1, o2] = ['o1', 'o2'].map(i =>
      raw({ headers: { 'message-id': i }, value: JSON.stringify(order), body: order }),
    );
    expect(checkedId(header(), o1!)).not.toBe(checkedId(header(), o2!));
    expect(checkedId(contentHash(), o1!)).toBe(checkedId(contentHash(), o2!));
  });

  test('is the SHA-256 of the bytes; text is its bytes', () => {
    const expected = createHash('sha256').update('{"a":1}').digest('hex');
    expect(id({ value: '{"a":1}' })).toBe(expected);
    expect(id({ value: bytes('{"a":1}') })).toBe(expected);
    expect(id({ value: '{"a":1} ' })).not.toBe(expected);
  });

  test('a delivery with only a decoded body is hashed in its canonical form', () => {
    expect(id({ body: { a: 1, b: 2 } })).toBe(id({ body: { b: 2, a: 1 } }));
    expect(id({ body: [1, 2] })).not.toBe(id({ body: [2, 1] }));
  });

  test('C27: nothing to hash is refused: all of it would be equal', () => {
    expect(badId(() => id({})).reason).toBe('missing');
    expect(badId(() => id({ body: null })).reason).toBe('missing');
    expect(badId(() => id({ value: '' })).reason).toBe('empty');
    expect(badId(() => id({ value: new Uint8Array(0) })).reason).toBe('empty');
    expect(badId(() => id({ value: '\ud800' })).reason).toBe('lone-surrogate');
    const loop: { self?: unknown } = {};
    loop.self = loop;
    expect(badId(() => id({ body: loop }))).toMatchObject({
      reason: 'unreadable-body',
      cause: { code: 'NT_BAD_MESSAGE' },
    });
    expect(badId(() => checkedId(contentHash(), unreadable(new Error('x')))).reason).toBe('unreadable-body');
  });
});

describe('recordHash', () => {
  const record = {
    topic: 'payments',
    partition: 3,
    offset: 1042n,
    key: bytes('c1'),
    value: bytes('{"amount_cents":250}'),
  };
  const withOffset = (fields: Partial<RawMessage>) =>
    checkedId(recordHash({ offset: true }), raw({ ...record, ...fields }));
  const without = (fields: Partial<RawMessage>) =>
    checkedId(recordHash({ offset: false }), raw({ ...record, ...fields }));

  test('C46: with the offset a resend is missed, without it an equal order is lost', () => {
    expect(withOffset({})).toBe(withOffset({}));
    expect(withOffset({ offset: 1043n })).not.toBe(withOffset({}));
    expect(without({ offset: 1043n })).toBe(without({}));
    expect(recordHash({ offset: true }).signature).not.toBe(recordHash({ offset: false }).signature);
  });

  test('C41: every field counts, and no field runs into the next', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '1', '\0'), maxLength: 3 });
    const fields = fc.record({
      topic: text,
      partition: fc.nat(11),
      offset: fc.bigInt(0n, 11n),
      key: fc.option(text.map(bytes), { nil: undefined }),
      value: fc.option(text, { nil: undefined }),
    });
    const plain = (f: Partial<RawMessage>) =>
      JSON.stringify([f.topic, f.partition, String(f.offset), f.key?.toString(), f.value].map(v => v ?? null));
    fc.assert(
      fc.property(fields, fields, (a, b) => {
        expect(withOffset(a) === withOffset(b)).toBe(plain(a) === plain(b));
      }),
      { numRuns: 2000 },
    );
    expect(withOffset({ topic: 'a', key: bytes('bc') })).not.toBe(withOffset({ topic: 'ab', key: bytes('c') }));
    expect(without({ key: bytes('a'), value: 'bc' })).not.toBe(without({ key: bytes('ab'), value: 'c' }));
    const border = '\x01\0\0\0\0'; // how a field begins, but for its length
    expect(without({ key: bytes('a'), value: `b${border}c` })).not.toBe(
      without({ key: bytes(`a${border}b`), value: 'c' }),
    );
    expect(without({ key: undefined })).not.toBe(without({ key: bytes('') }));
  });

  test('what the source does not give is refused', () => {
    for (const fields of [{ topic: undefined }, { partition: undefined }, { offset: undefined }]) {
      expect(badId(() => withOffset(fields)).reason).toBe('missing');
    }
    expect(without({ offset: undefined })).toBe(without({}));
    expect(badId(() => without({ value: undefined })).reason).toBe('missing');
    expect(withOffset({ value: undefined })).not.toBe(withOffset({ value: '' }));
    expect(badId(() => without({ value: '\udc00' })).reason).toBe('lone-surrogate');
  });
});

test('position is where the delivery stands', () => {
  expect(checkedId(position(), raw({ position: 'payments/3/1042' }))).toBe('payments/3/1042');
  expect(badId(() => checkedId(position(), raw())).reason).toBe('missing');
});
