import { closeSync, openSync, writeSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, expect, test } from 'vitest';
import { jsonlSource } from '../../src/sources/jsonl/index.ts';
import { ack, open, temporary } from './reading.ts';

const files = temporary();
afterAll(files.remove);

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Live bytes, on and off the heap. */
function liveBytes(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const MIB = 1024 * 1024;

function write(name: string, bytes: number, line: (n: number) => string): string {
  const fd = openSync(files.path(name), 'w');
  for (let written = 0, n = 0; written < bytes; ) {
    let block = '';
    while (block.length < MIB) block += line(n++);
    written += writeSync(fd, block);
  }
  closeSync(fd);
  return files.path(name);
}

test('memory does not grow with the file: 12 MiB of small lines stay within 6 MiB', async () => {
  const file = write(
    'small.jsonl',
    12 * MIB,
    n => `{"id":"m${n}","key":"k${n % 100}","body":{"amount":${n},"text":"${'x'.repeat(60)}"}}\n`,
  );
  const run = await open(jsonlSource(file), 1);
  const [lane] = run.lanes;
  const before = liveBytes();
  let most = 0;
  for (let batches = 0; ; batches++) {
    const batch = await lane!.receive(500, run.stop.signal);
    if (batch.length === 0) break;
    await ack(lane!, ...batch);
    if (batches % 100 === 0) most = Math.max(most, liveBytes());
  }
  await run.close();
  expect(most - before).toBeGreaterThan(0);
  expect(most - before).toBeLessThan(6 * MIB);
});

test('a line of 64 MiB passes within the limit of a line, and is not buffered', async () => {
  const fd = openSync(files.path('huge.jsonl'), 'w');
  writeSync(fd, '{"body":"');
  for (let i = 0; i < 64; i++) writeSync(fd, 'x'.repeat(MIB));
  writeSync(fd, '"}\n{"id":"m2","body":2}\n');
  closeSync(fd);
  const run = await open(jsonlSource(files.path('huge.jsonl')), 1);
  const before = liveBytes();
  const [huge] = await run.lanes[0]!.receive(1, run.stop.signal);
  expect(liveBytes() - before).toBeLessThan(4 * MIB);
  expect(huge?.fault).toContain('is longer than 1048576 bytes');
  const [next] = await run.lanes[0]!.receive(1, run.stop.signal);
  expect(next?.headers.get('message-id')).toBe('m2');
  await run.close();
});

test('a batch of large messages ends early, so that it stays within memory', async () => {
  const file = write('large.jsonl', 32 * MIB, n => `{"id":"m${n}","body":"${'x'.repeat(MIB / 2)}"}\n`);
  const run = await open(jsonlSource(file), 1);
  const [lane] = run.lanes;
  const batch = await lane!.receive(500, run.stop.signal);
  expect(batch.length).toBe(8); // 4 MiB
  await run.close();
});
