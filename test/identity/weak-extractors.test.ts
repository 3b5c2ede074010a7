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

const fromHex = (hex: string | undefined) => (hex === undefined ? undefined : Buffer.from(hex, 'hex'));

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

  // Made with Go 1.26: `sha256.Sum256` of `json.Marshal` of the struct, once with and once without its field `Offset`.
  test.each([
    [
      'payments',
      3,
      1042n,
      '6331',
      '7b22616d6f756e745f63656e7473223a3235307d',
      '1c048ccc953a738006457759fad3d19327be112f9d325092b8711f987bc9b4b4',
      '81bae2bf2db39732d2e410c6524b73d323a7d769c1529472f9d4236091f9cafe',
    ],
    [
      'payments',
      0,
      0n,
      undefined,
      '78',
      'a9abda802ffb972ee8ff7bbe68485819b5dc492e05635cb666445597fdcf1c85',
      'fdc34b4a01c23d68c4a46876564762bcbb663611641150cc016890a70e6b2e82',
    ],
    [
      'payments',
      0,
      0n,
      '',
      '',
      '9b5cdf5026feb9acb40a801d6710f0ef89aa0a62470bb0357b1cf8cf232ca46c',
      '81b884710b82027c58d4e5d028c3cdbb9e1433d3dee191479352dd7e56e86a14',
    ],
    [
      'payments',
      7,
      9_007_199_254_740_993n,
      '6b',
      undefined,
      '46ddeae1a4f3b841e09deb1135c293d206e48da70687478bf3d501c717aabafa',
      undefined,
    ],
    [
      'a.b_c-D',
      2_147_483_647,
      9_223_372_036_854_775_807n,
      '00fffe',
      'c3a9e282acf09f9880',
      '5231baa8b1a8a1031fb132a273d74c8390b53dba2775186cf3f0a32b4e0274be',
      'e641affe25940609742d7fad80b18a4f5e1c0ae3f01503977285821218eabaf0',
    ],
    [
      '<a>&b\u2028\u2029"\\\n\t\b\f\u0001\u007fé',
      1,
      2n,
      '3c263e',
      '0a',
      '9479621f7450045d8a0166fc56511a054ca00b928c39c80ccde62177e323bf1c',
      'a5d2a0948536485e4440c5fafee9f1a6e79e315f61e70d88c52ba58d0b24c8c3',
    ],
  ] as const)('is what a consumer in Go makes of a record of %s/%i at %d', (...vector) => {
    const [topic, partition, offset, key, value, expected, expectedWithout] = vector;
    const fields = { topic, partition, offset, key: fromHex(key), value: fromHex(value) };
    expect(withOffset(fields)).toBe(expected);
    // A deletion without an offset is refused: all later ones of the key would count as its copies.
    if (expectedWithout !== undefined) expect(without(fields)).toBe(expectedWithout);
  });

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
    const border = '","Value":"'; // how the next field begins
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
