import { writeFileSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import { header } from '../../src/identity/extractors.ts';
import type { Delivery } from '../../src/ports/delivery.ts';
import { jsonlSource } from '../../src/sources/jsonl/index.ts';
import { readAll, temporary } from './reading.ts';

const files = temporary();
afterAll(files.remove);

async function read(...lines: readonly (string | object)[]): Promise<Delivery[]> {
  const file = files.path('messages.jsonl');
  writeFileSync(file, lines.map(line => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
  return readAll(jsonlSource(file));
}

async function readOne(line: string | object): Promise<Delivery> {
  const [delivery] = await read(line);
  return delivery!;
}

test('every field of the envelope arrives', async () => {
  const delivery = await readOne({
    id: 'm1',
    type: 'deposit',
    key: 'account-7',
    time: '2024-05-01T10:00:00.250+02:00',
    headers: { trace: 'abc', tag: ['x', 'y'] },
    body: { amount: 500 },
  });
  expect(delivery).toMatchObject({
    type: 'deposit',
    key: 'account-7',
    time: new Date(Date.UTC(2024, 4, 1, 8, 0, 0, 250)),
    body: { value: { amount: 500 } },
    attempt: 1,
  });
  expect(delivery.headers.get('message-id')).toBe('m1');
  expect(delivery.headers.get('Trace')).toBe('abc');
  expect(delivery.headers.getAll('tag')).toEqual(['x', 'y']);
});

test('only the body must be there, and null is a body', async () => {
  const [bare, empty] = await read(
    { body: 1 },
    { id: null, type: null, key: null, time: null, headers: null, body: null },
  );
  for (const delivery of [bare!, empty!]) {
    expect(delivery.headers.getAll('message-id')).toEqual([]);
    expect([delivery.type, delivery.key, delivery.time, delivery.fault]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  }
  expect(empty?.body).toEqual({ value: null });
});

test.each([
  ['2024-05-01T10:00Z', Date.UTC(2024, 4, 1, 10)],
  ['2024-05-01 10:00:01Z', Date.UTC(2024, 4, 1, 10, 0, 1)],
  ['2024-05-01T10:00:00.123456789Z', Date.UTC(2024, 4, 1, 10, 0, 0, 123)],
  ['2024-05-01T10:00:00-0530', Date.UTC(2024, 4, 1, 15, 30)],
  ['2024-05-01', Date.UTC(2024, 4, 1)],
  [1714557600000, Date.UTC(2024, 4, 1, 10)],
  [0, 0],
])('the time %s is understood', async (time, ms) => {
  const delivery = await readOne({ time, body: 1 });
  expect(delivery.fault).toBeUndefined();
  expect(delivery.time?.getTime()).toBe(ms);
});

test('a numeric key becomes its decimal text', async () => {
  expect((await readOne({ key: 42, body: 1 })).key).toBe('42');
});

test('C32: a numeric id beyond 2^53 is refused and never becomes a rounded text', async () => {
  const [a, b] = await read('{"id":15793596808644608,"body":1}', '{"id":15793596808644609,"body":1}');
  for (const [i, delivery] of [a!, b!].entries()) {
    expect(delivery.fault).toBe(`line ${i + 1} holds the id as a number beyond 2^53: send it as a string`);
    expect(delivery.headers.getAll('message-id')).toEqual([]);
  }
  const inHeader = await readOne('{"headers":{"message-id":15793596808644609},"body":1}');
  expect(inHeader.fault).toMatch(/header as a number beyond 2\^53/);
  const inList = await readOne('{"headers":{"message-id":[15793596808644609]},"body":1}');
  expect(inList.fault).toMatch(/header as a number beyond 2\^53/);
  const inPair = await readOne('{"headers":[["message-id",15793596808644609]],"body":1}');
  expect(inPair.fault).toMatch(/header as a number beyond 2\^53/);
  const key = await readOne('{"key":15793596808644609,"body":1}');
  expect(key.fault).toMatch(/key as a number beyond 2\^53/);
});

test('C32: 7 and "7" are the same id; a fraction and a boolean are none', async () => {
  const [number, text, fraction, boolean] = await read(
    { id: 7, body: 1 },
    { id: '7', body: 1 },
    { id: 7.5, body: 1 },
    { id: true, body: 1 },
  );
  const identity = header();
  expect(identity(number as never)).toBe('7');
  expect(identity(text as never)).toBe('7');
  expect(() => identity(fraction as never)).toThrow(/not an integer/);
  expect(() => identity(boolean as never)).toThrow(/wrong type/);
});

test('C29: an id beside another message-id header is ambiguous; the same one twice is not', async () => {
  const [other, same] = await read(
    { id: 'a', headers: { 'Message-Id': 'b' }, body: 1 },
    { id: 'a', headers: [['message-id', 'a']], body: 1 },
  );
  expect(other?.headers.getAll('message-id')).toEqual(['a', 'b']);
  expect(() => header()(other as never)).toThrow(/several different values/);
  expect(header()(same as never)).toBe('a');
});

test('C33: a NUL in the id arrives, for the identity to refuse', async () => {
  const delivery = await readOne('{"id":"a\\u0000b","body":1}');
  expect(delivery.headers.get('message-id')).toBe('a\0b');
});

const kcat = {
  topic: 'payments',
  partition: 3,
  offset: 1042,
  tstype: 'create',
  ts: 1714557600000,
  broker: 1,
  headers: ['message-id', 'm1', 'tag', 'x', 'tag', 'y', 'none', null],
  key: 'account-7',
  payload: '{"amount":500}',
};

test('what kcat -J prints is read, with the payload as the text that it is', async () => {
  const delivery = await readOne(kcat);
  expect(delivery).toMatchObject({
    topic: 'payments',
    partition: 3,
    offset: 1042n,
    key: 'account-7',
    time: new Date(1714557600000),
    value: '{"amount":500}',
    position: `${files.path('messages.jsonl')}:1`,
  });
  expect(delivery.body).toBeUndefined();
  expect(delivery.headers.get('message-id')).toBe('m1');
  expect(delivery.headers.getAll('tag')).toEqual(['x', 'y']);
  expect(delivery.headers.getAll('none')).toEqual([]);
});

test('kcat: a tombstone, a decoded payload, headers as a map, and no timestamp', async () => {
  const { headers: _h, tstype: _t, ts: _ts, ...least } = kcat;
  const [tombstone, decoded, mapped, untimed, zero] = await read(
    { ...kcat, key: null, payload: null },
    { ...kcat, payload: { amount: 500 } },
    { ...kcat, headers: { 'message-id': ['m1'] } },
    least,
    { ...kcat, tstype: 'unknown', ts: 0 },
  );
  expect(tombstone).toMatchObject({ key: undefined, body: { value: null } });
  expect(decoded?.body).toEqual({ value: { amount: 500 } });
  expect(mapped?.headers.get('message-id')).toBe('m1');
  expect(untimed).toMatchObject({ time: undefined, value: '{"amount":500}' });
  expect(zero?.time).toBeUndefined();
});

test('kcat: what it could not decode itself is a fault, and so is a place that is none', async () => {
  const [failed, offset, partition] = await read(
    { ...kcat, payload: null, payload_error: 'Unknown schema' },
    JSON.stringify(kcat).replace('1042', '9007199254740993'),
    { ...kcat, partition: '3' },
  );
  expect(failed?.fault).toBe('line 1 says payload_error: kcat could not decode the message');
  expect(offset?.fault).toBe('line 2 has an offset that is not an integer below 2^53');
  expect(partition?.fault).toBe('line 3 has a partition that is not an integer');
});

test('a body makes it the plain envelope, whatever else is there', async () => {
  const delivery = await readOne({ ...kcat, headers: undefined, id: 'm1', body: 1 });
  expect(delivery).toMatchObject({ body: { value: 1 }, key: 'account-7' });
  expect(delivery.topic).toBeUndefined();
});
