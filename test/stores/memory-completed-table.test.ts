import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeKey } from '../../src/identity/encoding.ts';
import { type Completed, CompletedTable } from '../../src/stores/memory/completed-table.ts';
import { KeyBits } from '../../src/stores/memory/key-bits.ts';

const uuidOf = (hex: string) => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

/** Keys of every kind in turn. */
const hexOf = (n: number): string => {
  const id = [uuidOf(n.toString(16).padStart(32, '0')), `order-${n}`, `${'long '.repeat(60)}${n}`][n % 3]!;
  return encodeKey(id).hex;
};
const HEXES = Array.from({ length: 2_000 }, (_, n) => hexOf(n));

/** Random numbers of so many bits: with three, all keys have one of eight hashes, which are neighbouring cells. */
const keyBits = fc
  .tuple(fc.constantFrom(3, 7, 32), fc.infiniteStream(fc.nat({ max: 2 ** 32 - 1 })))
  .map(([bits, numbers]) => new KeyBits(Int32Array.from(numbers.take(512), n => n >>> (32 - bits))));

const LAST_SLOT = 2 ** 30 - 1;
const n = fc.nat({ max: 40 });
const fingerprint = fc.option(
  fc.oneof(fc.constantFrom('00'.repeat(16), 'f'.repeat(32)), fc.bigInt(0n, 2n ** 128n - 1n).map(hex32)),
  { nil: undefined },
);
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('add' as const),
      n,
      fingerprint,
      result: fc.option(fc.jsonValue(), { nil: undefined }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('delete' as const), n }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('oldest' as const), times: fc.nat({ max: 5 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('many' as const), times: fc.nat({ max: 700 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('oldest' as const), times: fc.nat({ max: 1_500 }) }) },
);

function hex32(number: bigint): string {
  return number.toString(16).padStart(32, '0');
}

test('the table of completed ids does what a Map does, in whatever cells they meet', () => {
  fc.assert(
    fc.property(
      keyBits,
      fc.constantFrom(0, LAST_SLOT, LAST_SLOT - 300),
      fc.array(step, { maxLength: 40, size: 'max' }),
      (key, firstSlot, steps) => {
        const table = new CompletedTable(firstSlot);
        const model = new Map<string, Completed>();
        let at = 1_700_000_000_000.5;
        let added = 41;
        const add = (hex: string, fingerprint: string | undefined, result: unknown) => {
          if (model.has(hex)) return;
          at++;
          table.add(key.read(hex), at, fingerprint, result);
          model.set(hex, { at, fingerprint, result });
        };
        for (const one of steps) {
          if (one.do === 'add') add(HEXES[one.n]!, one.fingerprint, one.result);
          if (one.do === 'many') {
            for (let i = 0; i < one.times; i++, added++) {
              add(
                HEXES[added % HEXES.length]!,
                added % 3 ? hex32(BigInt(added)) : undefined,
                added % 5 ? added : undefined,
              );
            }
          }
          if (one.do === 'delete') {
            table.delete(key.read(HEXES[one.n]!));
            model.delete(HEXES[one.n]!);
          }
          if (one.do === 'oldest') {
            for (const hex of [...model.keys()].slice(0, one.times)) model.delete(hex);
            for (let i = 0; i < one.times; i++) table.deleteOldest();
          }
          expect(table.size).toBe(model.size);
          expect(table.oldestAt).toBe(model.values().next().value?.at);
          if ('n' in one) expect(table.get(key.read(HEXES[one.n]!))).toEqual(model.get(HEXES[one.n]!));
        }
        expect([...table.times()]).toEqual([...model.values()].map(({ at }) => at));
        expect(HEXES.map(hex => table.get(key.read(hex)))).toEqual(HEXES.map(hex => model.get(hex)));
      },
    ),
    { numRuns: 200 },
  );
});

test('what a segment held is not met again when the segment is used again', () => {
  const key = new KeyBits();
  const table = new CompletedTable();
  const addAll = (result: unknown) => {
    for (const hex of HEXES) table.add(key.read(hex), 1, result === undefined ? undefined : hex32(1n), result);
  };
  addAll('of the first');
  while (table.size > 0) table.deleteOldest();
  addAll(undefined);
  const kept = { at: 1, fingerprint: undefined, result: undefined };
  expect(HEXES.map(hex => table.get(key.read(hex)))).toEqual(HEXES.map(() => kept));
});

test('a UUID is told apart from a text whose digest begins with it', () => {
  const text = encodeKey('order-1').hex;
  const digest = createHash('sha256').update(text).digest('hex');
  const uuid = encodeKey(uuidOf(digest.slice(0, 32))).hex;
  const random = new Int32Array(512);
  const [ofText, ofUuid] = [new KeyBits(random).read(text), new KeyBits(random).read(uuid)];
  expect([...ofUuid.words]).toEqual([...ofText.words]);
  const table = new CompletedTable();
  table.add(ofText, 1, undefined, 'text');
  expect(table.get(ofUuid)).toBeUndefined();
  table.delete(ofUuid);
  expect(table.get(ofText)?.result).toBe('text');
});

test('every digit of a UUID changes its hash', () => {
  const key = new KeyBits();
  const base = '0123456789abcdef'.repeat(2);
  const hashes = [...base].flatMap((digit, place) =>
    [...'0123456789abcdef']
      .filter(other => other !== digit)
      .map(other => key.read(`01${base.slice(0, place)}${other}${base.slice(place + 1)}`).hash),
  );
  // Of 480 numbers of 32 bits two are the same once in 37,000 runs.
  expect(new Set(hashes).size).toBeGreaterThan(478);
  expect(hashes).not.toContain(key.read(`01${base}`).hash);
});
