import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { type JsonlInput, jsonlSource } from '../../src/sources/jsonl/index.ts';
import { folderWith } from './program.ts';

const LINE = '{"id":"m1","body":1}\n';
const positions = { load: async () => undefined, save: async () => undefined };

function opened(input: JsonlInput) {
  const source = jsonlSource(input);
  const signal = new AbortController().signal;
  return { source, signal, lanes: source.receive({ signal, consumer: 'x', positions })[Symbol.asyncIterator]() };
}

test('the lag of files is what is not settled, also of what is appended meanwhile', async () => {
  const folder = await folderWith({ 'a.jsonl': LINE.repeat(3), 'b.jsonl': LINE });
  const { source, signal, lanes } = opened([join(folder, 'a.jsonl'), join(folder, 'b.jsonl')]);
  expect(source.lag?.()).toBeUndefined();
  const lane = (await lanes.next()).value;
  await lanes.next();
  expect(source.lag?.()).toEqual({ amount: 4 * LINE.length, unit: 'bytes' });

  const deliveries = await lane.receive(3, signal);
  expect(source.lag?.()).toEqual({ amount: 4 * LINE.length, unit: 'bytes' });
  await lane.settle([{ delivery: deliveries[0], settle: 'ack' }]);
  expect(source.lag?.()).toEqual({ amount: 3 * LINE.length, unit: 'bytes' });
  await writeFile(join(folder, 'b.jsonl'), LINE, { flag: 'a' });
  expect(source.lag?.()).toEqual({ amount: 4 * LINE.length, unit: 'bytes' });
  await lanes.return?.();
  expect(source.lag?.()).toEqual({ amount: 0, unit: 'bytes' });
});

test('a stream does not know its lag', async () => {
  const { source, lanes } = opened(Readable.from([LINE]));
  await lanes.next();
  expect(source.lag?.()).toBeUndefined();
  await lanes.return?.();
});
