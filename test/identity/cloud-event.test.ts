import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cloudEvent } from '../../src/identity/extractors.ts';
import { checkedId } from '../../src/identity/identity.ts';
import { badId, bytes, raw, unreadable } from './raw.ts';

const event = (source: unknown, id: unknown) => ({ specversion: '1.0', type: 't', source, id });
const structured = (source: unknown, id: unknown) => checkedId(cloudEvent(), raw({ body: event(source, id) }));
const binary = (headers: Record<string, unknown>, body?: unknown) => checkedId(cloudEvent(), raw({ headers, body }));

describe('cloudEvent', () => {
  test('C41: an id counts only together with its source', () => {
    expect(structured('/orders', '1')).not.toBe(structured('/billing', '1'));
    expect(structured('a', 'b:c')).not.toBe(structured('a:b', 'c'));
    expect(structured('a|b', 'c')).not.toBe(structured('a', 'b|c'));
  });

  test('C41: no two pairs share an id', () => {
    const part = fc.string({ unit: fc.constantFrom('a', ':', '|', '%', '7', 'c'), minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(part, part, part, part, (s1, i1, s2, i2) => {
        expect(structured(s1, i1) === structured(s2, i2)).toBe(s1 === s2 && i1 === i2);
      }),
      { numRuns: 2000 },
    );
  });

  test.each(['ce_', 'ce-', 'cloudEvents:', 'cloudEvents_', 'CE_'])('binary mode with %s is the same event', prefix => {
    for (const as of [(s: string) => s, bytes]) {
      expect(binary({ [`${prefix}id`]: as('1'), [`${prefix}source`]: as('/orders') })).toBe(structured('/orders', '1'));
    }
  });

  test.each<[string, unknown, unknown, string]>([
    ['no source', undefined, '1', 'missing'],
    ['no id', '/orders', undefined, 'missing'],
    ['an empty source', '', '1', 'empty'],
    ['an empty id', '/orders', ' ', 'empty'],
  ])('C41: %s is refused in both modes', (_name, source, id, reason) => {
    expect(badId(() => structured(source, id)).reason).toBe(reason);
    expect(badId(() => binary({ ce_source: source, ce_id: id })).reason).toBe(reason);
  });

  test('both modes, or two prefixes, must name the same event', () => {
    const headers = { ce_id: '1', ce_source: '/orders' };
    expect(binary(headers, event('/orders', '1'))).toBe(structured('/orders', '1'));
    expect(badId(() => binary(headers, event('/orders', '2'))).reason).toBe('ambiguous');
    expect(badId(() => binary(headers, event('/billing', '1'))).reason).toBe('ambiguous');
    expect(badId(() => binary({ ...headers, 'ce-id': '2' })).reason).toBe('ambiguous');
    expect(badId(() => binary({ ...headers, ce_source: ['/orders', '/billing'] })).reason).toBe('ambiguous');
    // One header makes it binary mode: the body does not fill in for the other.
    expect(badId(() => binary({ ce_id: '1' }, event('/orders', '1'))).reason).toBe('missing');
    expect(badId(() => binary({ ce_source: '/orders' }, event('/orders', '1'))).reason).toBe('missing');
    expect(binary({ ...headers, 'ce-id': '1', 'cloudEvents:source': '/orders' })).toBe(structured('/orders', '1'));
  });

  test('in binary mode the body is data: fields of the same name mean nothing, and it need not be readable', () => {
    const headers = { ce_id: '1', ce_source: '/orders' };
    expect(binary(headers, { id: '2', source: 'x' })).toBe(structured('/orders', '1'));
    expect(checkedId(cloudEvent(), unreadable(new Error('binary'), headers))).toBe(structured('/orders', '1'));
    const cause = new SyntaxError('no JSON');
    expect(badId(() => checkedId(cloudEvent(), unreadable(cause)))).toMatchObject({ reason: 'unreadable-body', cause });
  });

  test('what is no CloudEvent is refused, inherited fields included', () => {
    for (const body of [
      undefined,
      null,
      'x',
      7,
      [event('a', 'b')],
      bytes('x'),
      { id: '1', source: 'a' },
      Object.create(event('a', '1')),
    ]) {
      expect(badId(() => checkedId(cloudEvent(), raw({ body }))).reason).toBe('missing');
    }
  });
});
