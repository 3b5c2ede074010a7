import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { isNevertwiceError } from '../../src/errors.ts';
import { jsonlSource } from '../../src/sources/jsonl/index.ts';
import { ack, idsOf, keptPositions, open, readAll, temporary } from './reading.ts';

const files = temporary();
afterAll(files.remove);

function line(id: string): string {
  return `${JSON.stringify({ id, body: id })}\n`;
}

async function errorOf(work: () => unknown): Promise<Error> {
  try {
    await work();
  } catch (error) {
    expect(isNevertwiceError(error, 'NT_CONFIG')).toBe(true);
    return error as Error;
  }
  throw new Error('nothing was thrown');
}

test('an input that does not exist or is a directory is told in one line, before any message is handled', async () => {
  writeFileSync(files.path('good.jsonl'), line('m1'));
  mkdirSync(files.path('directory'));
  for (const [name, why] of [
    ['missing.jsonl', 'does not exist'],
    ['directory', 'is a directory'],
    ['good.jsonl/below', 'does not exist'],
  ] as const) {
    const source = jsonlSource([files.path('good.jsonl'), files.path(name)]);
    const error = await errorOf(() => open(source, 1));
    expect(error.message).toContain(`${files.path(name)} ${why}`);
    expect(error.message).not.toContain('\n');
  }
});

test('no input, one input twice and useless limits are refused', async () => {
  for (const input of [[], '', ['a.jsonl', ''], ['a.jsonl', './a.jsonl'], ['-', '-']]) {
    await errorOf(() => jsonlSource(input));
  }
  for (const options of [{ maxLineBytes: 0 }, { maxLineBytes: Number.NaN }, { saveEveryMs: -1 }]) {
    await errorOf(() => jsonlSource('a.jsonl', options));
  }
});

test('the name says what is read', () => {
  expect(jsonlSource('payments.jsonl').name).toBe('jsonl payments.jsonl');
  expect(jsonlSource(['a.jsonl', 'b.jsonl']).name).toBe('jsonl 2 files');
  expect(jsonlSource('-').name).toBe('jsonl stdin');
});

test('a stream is read to its end, and keeps no position', async () => {
  const positions = keptPositions();
  const stream = Readable.from([line('m1').slice(0, 5), line('m1').slice(5) + line('m2'), line('m3').trimEnd()], {
    objectMode: false,
  });
  const deliveries = await readAll(jsonlSource(stream), { positions });
  expect(idsOf(deliveries)).toEqual(['m1', 'm2', 'm3']);
  expect(deliveries[1]).toMatchObject({ lane: 'jsonl:stream', position: 'stream:2' });
  expect(positions.saves).toEqual([]);
});

test('a stream that gives strings is read as UTF-8', async () => {
  const stream = Readable.from([Buffer.from(line('caf\u00e9'))], { objectMode: false });
  stream.setEncoding('utf8');
  expect(idsOf(await readAll(jsonlSource(stream)))).toEqual(['caf\u00e9']);
});

test('a stream that is cut off in a line makes a dead letter of it: nobody will send the rest', async () => {
  const source = jsonlSource(Readable.from([`${line('m1')}{"id":"m2","bo`], { objectMode: false }));
  const [, torn] = await readAll(source);
  expect(torn).toMatchObject({ fault: 'line 2 is not JSON', position: 'stream:2' });
  expect(Buffer.from(torn?.value as Uint8Array).toString()).toBe('{"id":"m2","bo');
  expect(source.waiting).toEqual([]);
});

test('a slow stream gives what is there, instead of waiting for a full batch', async () => {
  const stream = new PassThrough();
  const run = await open(jsonlSource(stream), 1);
  const [lane] = run.lanes;
  const first = lane!.receive(100, run.stop.signal);
  stream.write(line('m1') + line('m2') + line('m3').slice(0, 4));
  expect(idsOf(await first)).toEqual(['m1', 'm2']);
  const second = lane!.receive(100, run.stop.signal);
  stream.write(line('m3').slice(4));
  expect(idsOf(await second)).toEqual(['m3']);
  await run.close();
});

test('C111: a stop ends the wait for a stream, which stays the caller\u2019s', async () => {
  const stream = new PassThrough();
  const listeners = () => ['readable', 'end', 'close', 'error'].map(event => stream.listenerCount(event));
  const before = listeners();
  const run = await open(jsonlSource(stream), 1);
  const [lane] = run.lanes;
  const waiting = lane!.receive(100, run.stop.signal);
  run.stop.abort();
  expect(await waiting).toEqual([]);
  await run.close();
  expect(stream.destroyed).toBe(false);
  expect(listeners()).toEqual(before);
});

test('a stream that fails, before or while it is read, is an input that cannot be read', async () => {
  const failed = new PassThrough();
  failed.on('error', () => {});
  failed.destroy(Object.assign(new Error('no'), { code: 'EIO' }));
  const error = await errorOf(() => readAll(jsonlSource(failed)));
  expect(error.message).toContain('input stream cannot be read (EIO)');

  const failing = new PassThrough();
  const run = await open(jsonlSource(failing), 1);
  const waiting = errorOf(() => run.lanes[0]!.receive(1, run.stop.signal));
  failing.destroy(Object.assign(new Error('no'), { code: 'EIO' }));
  expect((await waiting).message).toContain('input stream cannot be read (EIO)');
  await run.close();
});

test('a named pipe is a stream', async () => {
  const pipe = files.path('pipe');
  execFileSync('mkfifo', [pipe]);
  const writer = spawn('sh', ['-c', `printf '{"id":"m1","body":1}\\n' > "$0"`, pipe]);
  const positions = keptPositions();
  expect(idsOf(await readAll(jsonlSource(pipe), { positions }))).toEqual(['m1']);
  expect(positions.saves).toEqual([]);
  writer.kill();
});

// Reads from standard input until it is stopped or the input ends, and prints the ids.
const READER = `
  import { jsonlSource } from ${JSON.stringify(pathToFileURL('src/sources/jsonl/index.ts').href)};
  const stop = new AbortController();
  const positions = { load: async () => undefined, save: async () => { throw new Error('saved') } };
  const lanes = jsonlSource('-').receive({ signal: stop.signal, consumer: 'wallet', positions })[Symbol.asyncIterator]();
  const { value: lane } = await lanes.next();
  let batch = await lane.receive(10, stop.signal);
  while (batch.length > 0) {
    console.log(batch.map(d => d.headers.get('message-id')).join());
    await lane.settle(batch.map(delivery => ({ delivery, settle: 'ack' })));
    if (process.argv.includes('once')) stop.abort();
    batch = await lane.receive(10, stop.signal);
  }
  await lanes.return();
`;

function spawnReader(...args: readonly string[]) {
  return spawn(process.execPath, ['--input-type=module', '-e', READER, '--', ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
}

test('- is standard input', async () => {
  const reader = spawnReader();
  reader.stdin.end(line('m1') + line('m2'));
  expect(await text(reader.stdout)).toBe('m1,m2\n');
});

test('C111: a process that stops reading an open standard input can exit', async () => {
  const reader = spawnReader('once');
  reader.stdin.write(line('m1'));
  const exited = new Promise(resolve => reader.once('exit', resolve));
  expect(await text(reader.stdout)).toBe('m1\n');
  expect(await exited).toBe(0); // its input was never ended
  reader.stdin.destroy();
});

test('a lane that has ended settles nothing', async () => {
  writeFileSync(files.path('over.jsonl'), line('m1'));
  const positions = keptPositions();
  const run = await open(jsonlSource(files.path('over.jsonl')), 1, positions);
  const [lane] = run.lanes;
  const [m1] = await lane!.receive(1, run.stop.signal);
  await run.close();
  await ack(lane!, m1!);
  expect(lane!.revoked.aborted).toBe(true);
  expect(positions.saves).toEqual([]);
});
