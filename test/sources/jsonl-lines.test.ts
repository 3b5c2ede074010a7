import { writeFileSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import { jsonlSource } from '../../src/sources/jsonl/index.ts';
import { LineReader, type Place } from '../../src/sources/jsonl/lines.ts';
import { idsOf, readAll, temporary } from './reading.ts';

const files = temporary();
afterAll(files.remove);

function write(name: string, content: string | Uint8Array): string {
  writeFileSync(files.path(name), content);
  return files.path(name);
}

interface Cut {
  readonly start: Place;
  readonly text: string;
  readonly tooLong: boolean;
}

function cut(content: Buffer, chunkBytes: number, maxBytes = 1000): Cut[] {
  const reader = new LineReader(maxBytes, { offset: 0, line: 0 });
  const lines: Cut[] = [];
  for (let at = 0; at < content.length; at += chunkBytes) {
    reader.push(content.subarray(at, at + chunkBytes));
    for (let line = reader.next(); line !== undefined; line = reader.next()) {
      lines.push({ start: line.start, text: line.buffer.toString('utf8', line.from, line.to), tooLong: line.tooLong });
    }
  }
  return lines;
}

test('lines are the same however the bytes were cut into chunks', () => {
  const texts = ['', 'a', '', 'b'.repeat(50), 'é💶', 'c'.repeat(7), ''];
  const content = Buffer.from(texts.map(text => `${text}\n`).join(''));
  let offset = 0;
  const expected = texts.map((text, line) => {
    const start = { offset, line };
    offset += Buffer.byteLength(text) + 1;
    return { start, text, tooLong: false };
  });
  for (let chunkBytes = 1; chunkBytes <= content.length; chunkBytes++) {
    expect(cut(content, chunkBytes), `chunks of ${chunkBytes}`).toEqual(expected);
  }
});

test('a line longer than the limit keeps its first part and its length, however it was cut', () => {
  const content = Buffer.from(`${'a'.repeat(10)}\n${'b'.repeat(11)}\n${'c'.repeat(95)}\nd\n`);
  for (let chunkBytes = 1; chunkBytes <= content.length; chunkBytes++) {
    expect(cut(content, chunkBytes, 10), `chunks of ${chunkBytes}`).toEqual([
      { start: { offset: 0, line: 0 }, text: 'a'.repeat(10), tooLong: false },
      { start: { offset: 11, line: 1 }, text: 'b'.repeat(10), tooLong: true },
      { start: { offset: 23, line: 2 }, text: 'c'.repeat(10), tooLong: true },
      { start: { offset: 119, line: 3 }, text: 'd', tooLong: false },
    ]);
  }
});

test('blank lines, CRLF and a byte order mark are fine, and lines keep their numbers', async () => {
  const file = write('windows.jsonl', '\ufeff{"id":"m1","body":1}\r\n\r\n \t\n{"id":"m2","body":2}\r\n');
  const deliveries = await readAll(jsonlSource(file));
  expect(idsOf(deliveries)).toEqual(['m1', 'm2']);
  expect(deliveries.map(({ position }) => position)).toEqual([`${file}:1`, `${file}:4`]);
  expect(deliveries.map(({ fault }) => fault)).toEqual([undefined, undefined]);
});

test('an empty file, and one of a byte order mark alone, hold nothing', async () => {
  const source = jsonlSource([write('empty.jsonl', ''), write('mark.jsonl', '\ufeff'), write('blank.jsonl', '\n \n')]);
  expect(await readAll(source)).toEqual([]);
  expect(source.waiting).toEqual([]);
});

test('C73: a line that cannot be read is a delivery that says which and why, with its bytes', async () => {
  const bad: readonly (readonly [string | Buffer, string])[] = [
    ['{"id":"m1", "body": "secret', 'line 2 is not JSON'],
    ['[1]', 'line 2 is not a JSON object'],
    ['null', 'line 2 is not a JSON object'],
    ['{"id":"m1"}', 'line 2 has neither a body nor a payload'],
    [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 'line 2 is not UTF-8'],
    ['{"type":7,"body":1}', 'line 2 has a type that is not a string'],
    ['{"key":{},"body":1}', 'line 2 has a key that is not a string'],
    ['{"headers":"x","body":1}', 'line 2 has headers that are neither an object nor a list'],
    ['{"headers":[["a"]],"body":1}', 'line 2 has a list of headers that is not made of names and values'],
    ['{"headers":["a","b","c"],"body":1}', 'line 2 has a list of headers that is not made of names and values'],
    ['{"time":"yesterday","body":1}', 'line 2 has a time that is neither ISO 8601 text nor milliseconds since 1970'],
    ['{"time":8.7e15,"body":1}', 'line 2 has a time that is neither ISO 8601 text nor milliseconds since 1970'],
    ['{"time":"2024-05-01T10:00:00","body":1}', 'line 2 has a time without a time zone: add Z or an offset'],
  ];
  for (const [line, fault] of bad) {
    const content = Buffer.concat([
      Buffer.from('{"id":"m0","body":0}\n'),
      Buffer.from(line),
      Buffer.from('\n{"id":"m2","body":2}\n'),
    ]);
    const file = write('bad.jsonl', content);
    const [before, broken, after] = await readAll(jsonlSource(file));
    expect(broken).toMatchObject({ fault, position: `${file}:2`, lane: `jsonl:${file}` });
    expect(Buffer.from(broken?.value as Uint8Array)).toEqual(Buffer.from(line));
    expect(broken?.fault).not.toContain('secret');
    expect([before?.fault, after?.fault]).toEqual([undefined, undefined]);
  }
});

test('U+FFFD that the line really holds is UTF-8', async () => {
  const [delivery] = await readAll(jsonlSource(write('replacement.jsonl', '{"body":"\ufffd"}\n')));
  expect(delivery?.body).toEqual({ value: '\ufffd' });
});

test('a line beyond maxLineBytes becomes a dead letter with its first 64 KiB, and the next line is fine', async () => {
  const long = `{"id":"m1","body":"${'x'.repeat(300_000)}"}`;
  const source = jsonlSource(write('long.jsonl', `${long}\n{"id":"m2","body":2}\n`), { maxLineBytes: 200_000 });
  const [first, second] = await readAll(source);
  expect(first?.fault).toBe('line 1 is longer than 200000 bytes: raise maxLineBytes');
  expect(Buffer.from(first?.value as Uint8Array).toString()).toBe(long.slice(0, 65_536));
  expect(second?.body).toEqual({ value: 2 });
});

test('what is kept of a line that is too long ends with the line', async () => {
  const source = jsonlSource(write('short.jsonl', '{"body":"0123456789"}\n{"body":2}\n'), { maxLineBytes: 12 });
  const [first, second] = await readAll(source);
  expect(Buffer.from(first?.value as Uint8Array).toString()).toBe('{"body":"012');
  expect(second).toMatchObject({ body: { value: 2 } });
});
