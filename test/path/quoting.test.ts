import { expect, test } from 'vitest';
import { quotesBody } from '../../src/core/quoting.ts';

const circular: { self?: unknown; name: string } = { name: 'geheim' };
circular.self = circular;
const long = 'a very long account description that no message has room for';

test.each([
  ['a text', 'must not be geheim', { a: { b: ['geheim'] } }, true],
  ['a text in quotes', 'was "geheim"', { name: 'geheim' }, true],
  ['a text that is escaped in quotes', 'was "a\\"b"', { name: 'a"b' }, true],
  ['a long text that is cut off', 'was "a very long acc…"', { name: long }, true],
  ['a number', 'got 42', { n: 42 }, true],
  ['a number inside another', 'at most 1420', { n: 42 }, false],
  ['a short text inside a word', 'expected string', { name: 'ring' }, false],
  ['a short text on its own', 'no such ring', { name: 'ring' }, true],
  ['a boolean', 'got true', { ok: true }, true],
  ['a bigint', 'got 7', { n: 7n }, true],
  ['a date', 'got "2023-11-14T22:13:20.000Z"', { at: new Date(1_700_000_000_000) }, true],
  ['a value of a Map', 'got geheim', new Map([['k', 'geheim']]), true],
  ['a body that is the text', 'got geheim', 'geheim', true],
  ['a body that refers to itself', 'got geheim', circular, true],
  ['a body that refers to itself and is not quoted', 'is circular', circular, false],
  ['nothing of it', 'Invalid input: expected number', { amount: 'geheim', list: [1, null, undefined, ''] }, false],
  ['perhaps, in a body that is too large to look through', 'invalid', Array.from({ length: 20_000 }, () => 'x'), true],
])('quotesBody: %s', (_, text, body, expected) => {
  expect(quotesBody(text, body)).toBe(expected);
});
