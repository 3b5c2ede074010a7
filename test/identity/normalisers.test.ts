import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encodeKey } from '../../src/identity/encoding.ts';
import { header } from '../../src/identity/extractors.ts';
import { checkedId, type Normaliser } from '../../src/identity/identity.ts';
import { lowerCaseUuid, nfc } from '../../src/identity/normalisers.ts';
import { raw } from './raw.ts';

const keyOf = (id: string, normaliser?: Normaliser) =>
  encodeKey(checkedId(header(), raw({ headers: { 'message-id': id } }), normaliser)).hex;
const distinct = (ids: string[], normaliser?: Normaliser) => new Set(ids.map(id => keyOf(id, normaliser))).size;

const uuid = '3f2b8c1e-0000-4000-8000-00000000abcd';

describe('C39: spellings of a UUID', () => {
  const spellings = [
    uuid,
    uuid.toUpperCase(),
    `{${uuid}}`,
    `{${uuid.toUpperCase()}}`,
    `urn:uuid:${uuid}`,
    `URN:UUID:${uuid}`,
  ];

  test('are different ids by default, and one with the normaliser', () => {
    expect(distinct(spellings)).toBe(spellings.length);
    expect(distinct(spellings, lowerCaseUuid)).toBe(1);
    expect(keyOf(spellings[3]!, lowerCaseUuid)).toBe(keyOf(uuid));
  });

  test('hold for every UUID', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.func(fc.boolean()), (id, upper) => {
        const mixed = [...id].map((c, i) => (upper(i) ? c.toUpperCase() : c)).join('');
        for (const spelling of [mixed, `{${mixed}}`, `uRn:UuId:${mixed}`]) expect(lowerCaseUuid(spelling)).toBe(id);
      }),
    );
  });

  test.each([
    'evt_123',
    'EVT_123',
    `{${uuid}`,
    `${uuid}}`,
    `${uuid.toUpperCase()}-1`,
    `urn:uuid:{${uuid}}`,
    ` ${uuid}`,
    `${uuid}\n`,
    uuid.replace('-', ''),
    `{urn:uuid:${uuid}}`,
    uuid.replaceAll('-', '').toUpperCase(),
    uuid.toUpperCase().replace('F', 'G'),
    `[${uuid}]`,
    '3F2B8C1-E0000-4000-8000-00000000ABCD',
    'ORDER-0000-1111-2222-333344445555-AB',
  ])('%j is no UUID and passes unchanged', id => {
    expect(lowerCaseUuid(id)).toBe(id);
  });
});

describe('C40: Unicode forms', () => {
  const pairs = [
    ['caf\u00e9', 'cafe\u0301'],
    ['\u212b', '\u00c5'],
  ];

  test('are different ids by default, and one with nfc', () => {
    for (const pair of pairs) {
      expect(distinct(pair)).toBe(2);
      expect(distinct(pair, nfc)).toBe(1);
    }
  });

  test('case and look-alikes stay apart', () => {
    expect(distinct(['a', 'A', '\u0430', '\uff41', '\ufb01', 'fi'], nfc)).toBe(6);
  });
});
