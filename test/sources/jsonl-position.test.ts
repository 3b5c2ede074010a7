import { appendFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { type JsonlOptions, type JsonlWarning, jsonlSource } from '../../src/sources/jsonl/index.ts';
import { ack, idsOf, keptPositions, open, readAll, temporary } from './reading.ts';

const files = temporary();
afterAll(files.remove);

function line(id: string, pad = 0): string {
  return `${JSON.stringify({ id, body: 'x'.repeat(pad) })}\n`;
}

/** A file that can be read again and again, with the warnings so far. */
function setUp(name: string, content: string, options: JsonlOptions = {}) {
  const file = files.path(name);
  writeFileSync(file, content);
  const warnings: JsonlWarning[] = [];
  const positions = keptPositions();
  const source = jsonlSource(file, { ...options, onWarning: warning => warnings.push(warning) });
  return { file, source, positions, warnings, next: async () => idsOf(await readAll(source, { positions })) };
}

test('the next run goes on after the last one, with the right line numbers', async () => {
  const { file, source, positions, next } = setUp('grows.jsonl', line('m1') + line('m2'));
  expect(await next()).toEqual(['m1', 'm2']);
  expect(await next()).toEqual([]);
  appendFileSync(file, `\n${line('m3')}`);
  const [m3] = await readAll(source, { positions });
  expect(m3?.position).toBe(`${file}:4`);
});

test('a new consumer reads from the begin', async () => {
  const { source, positions, next } = setUp('consumers.jsonl', line('m1'));
  expect(await next()).toEqual(['m1']);
  const { signal } = new AbortController();
  const other = source.receive({ signal, consumer: 'read model', positions })[Symbol.asyncIterator]();
  const lane = (await other.next()).value;
  expect(idsOf(await lane.receive(10, signal))).toEqual(['m1']);
  await other.return?.();
});

test('C54: the position stays before the first line that is not settled, also across batches', async () => {
  const { source, positions, next } = setUp('gap.jsonl', ['m1', 'm2', 'm3', 'm4', 'm5'].map(id => line(id)).join(''));
  const run = await open(source, 1, positions);
  const [lane] = run.lanes;
  const first = await lane!.receive(2, run.stop.signal);
  const second = await lane!.receive(2, run.stop.signal);
  await ack(lane!, first[0]!, second[0]!, second[1]!);
  await run.close();
  expect(await next()).toEqual(['m2', 'm3', 'm4', 'm5']);
});

test('retry-later is not settled: the position never passes it', async () => {
  const { source, positions, next } = setUp('later.jsonl', line('m1') + line('m2'));
  const run = await open(source, 1, positions);
  const [lane] = run.lanes;
  const [m1, m2] = await lane!.receive(2, run.stop.signal);
  await lane!.settle([
    { delivery: m1!, settle: 'retry-later', delayMs: 0 },
    { delivery: m2!, settle: 'ack' },
  ]);
  await run.close();
  expect(await next()).toEqual(['m1', 'm2']);
});

test('a crash loses at most the saves that were not due', async () => {
  const { source, positions, next } = setUp('crash.jsonl', line('m1') + line('m2') + line('m3'), { saveEveryMs: 0 });
  const run = await open(source, 1, positions);
  const [lane] = run.lanes;
  for (let i = 0; i < 2; i++) await ack(lane!, ...(await lane!.receive(1, run.stop.signal)));
  expect(await next()).toEqual(['m3']); // the first run was never closed
  await run.close();
});

test('saves are at most one a settle and one an interval, and one at the end', async () => {
  let nowMs = 0;
  const clock = { monotonicMs: () => nowMs, random: () => 0, sleep: async () => {} };
  const { source, positions } = setUp('saves.jsonl', ['a', 'b', 'c', 'd', 'e', 'f'].map(id => line(id)).join(''), {
    clock,
    saveEveryMs: 100,
  });
  const run = await open(source, 1, positions);
  const [lane] = run.lanes;
  const deliveries = await lane!.receive(6, run.stop.signal);
  const savesAfter: number[] = [];
  for (const [i, atMs] of [0, 99, 100, 150].entries()) {
    nowMs = atMs;
    await ack(lane!, deliveries[i]!);
    savesAfter.push(positions.saves.length);
  }
  await ack(lane!, deliveries[3]!); // nothing new
  run.stop.abort();
  await ack(lane!, deliveries[4]!); // at once while stopping
  savesAfter.push(positions.saves.length);
  await ack(lane!, deliveries[5]!);
  await run.close();
  savesAfter.push(positions.saves.length);
  expect(savesAfter).toEqual([1, 1, 2, 2, 3, 4]);
});

test.each([
  ['replaced by a file with other lines', line('n1') + line('n2') + line('n3')],
  ['cut', line('m1')],
  ['emptied', ''],
  ['edited just before the position', line('m1') + line('mX') + line('m3')],
])('a file that was %s starts again from its begin, with a warning', async (_, content) => {
  const { file, warnings, next } = setUp('changed.jsonl', line('m1') + line('m2'));
  expect(await next()).toEqual(['m1', 'm2']);
  writeFileSync(files.path('other.jsonl'), content);
  renameSync(files.path('other.jsonl'), file);
  expect(await next()).toEqual(
    content
      .split('\n')
      .slice(0, -1)
      .map(text => JSON.parse(text).id),
  );
  expect(warnings).toMatchObject([{ code: 'NT_INPUT_CHANGED', input: file }]);
  expect(warnings[0]?.message).not.toContain('\n');
  expect(await next()).toEqual([]);
  expect(warnings.length).toBe(1);
});

test('only the last KiB before the position is compared, and all of it', async () => {
  const { file, warnings, next } = setUp('long.jsonl', line('m1', 2000) + line('m2', 1100));
  await next();
  const content = line('m1', 2000) + line('m2', 1100);
  const changeAt = async (at: number) => {
    writeFileSync(file, `${content.slice(0, at)}y${content.slice(at + 1)}`);
    await next();
    writeFileSync(file, content);
    await next();
    return warnings.splice(0).length;
  };
  expect(await changeAt(content.length - 1025)).toBe(0);
  expect(await changeAt(content.length - 1024)).toBe(2); // changed, and changed back
});

test('a position of another version, or of no sense, starts from the begin with a warning', async () => {
  for (const text of ['v2 10 1 00000000000000000000000000000000', 'nonsense', '']) {
    const { file, positions, warnings, next } = setUp('version.jsonl', line('m1'));
    await positions.save('wallet', `jsonl:${file}`, text);
    expect(await next()).toEqual(['m1']);
    expect(warnings.map(({ code }) => code)).toEqual(['NT_INPUT_CHANGED']);
  }
});

test('the same file is the same lane, however it is named', async () => {
  const { file, positions, next } = setUp('names.jsonl', line('m1'));
  await next();
  const named = relative(process.cwd(), resolve(file));
  expect(named).not.toBe(file);
  expect(await readAll(jsonlSource(named), { positions })).toEqual([]);
});

test('two files are two lanes with a position each', async () => {
  const a = setUp('a.jsonl', line('a1') + line('a2'));
  const b = setUp('b.jsonl', line('b1'));
  const source = jsonlSource([a.file, b.file]);
  const positions = keptPositions();
  const run = await open(source, 2, positions);
  const [laneA, laneB] = run.lanes;
  expect(run.lanes.map(({ id }) => id)).toEqual([`jsonl:${a.file}`, `jsonl:${b.file}`]);
  const ofA = await laneA!.receive(10, run.stop.signal);
  const ofB = await laneB!.receive(10, run.stop.signal);
  expect([idsOf(ofA), idsOf(ofB)]).toEqual([['a1', 'a2'], ['b1']]);
  await ack(laneA!, ofB[0]!, ofA[0]!); // a delivery of another lane settles nothing
  await laneB!.settle([]);
  await run.close();
  expect(idsOf(await readAll(source, { positions }))).toEqual(['a2', 'b1']);
});

test('the lag is in bytes, from the first line that is not settled, over all files', async () => {
  const a = setUp('lag-a.jsonl', line('a1') + line('a2'));
  const b = setUp('lag-b.jsonl', line('b1'));
  const source = jsonlSource([a.file, b.file]);
  const bytes = line('a1').length;
  expect(source.lag?.()).toBeUndefined();
  const run = await open(source, 2);
  const [laneA] = run.lanes;
  const [a1, a2] = await laneA!.receive(10, run.stop.signal);
  expect(source.lag?.()).toEqual({ amount: 3 * bytes, unit: 'bytes' });
  await ack(laneA!, a2!);
  expect(source.lag?.()).toEqual({ amount: 3 * bytes, unit: 'bytes' });
  await ack(laneA!, a1!);
  expect(source.lag?.()).toEqual({ amount: bytes, unit: 'bytes' });
  await run.close();
});

test('a torn last line waits: no delivery, no error, and the position stays before it', async () => {
  const torn = line('m2').slice(0, -5);
  const { file, source, positions, next } = setUp('torn.jsonl', line('m1') + torn);
  expect(await next()).toEqual(['m1']);
  expect(source.waiting).toEqual([{ input: file, line: 2, bytes: torn.length }]);
  appendFileSync(file, line('m2').slice(-5));
  const [m2] = await readAll(source, { positions });
  expect(m2?.position).toBe(`${file}:2`);
  expect(source.waiting).toEqual([]);
});

test('a last line that lacks only its line end is delivered, once', async () => {
  const { file, source, positions, next } = setUp('unended.jsonl', line('m1') + line('m2').trimEnd());
  expect(await next()).toEqual(['m1', 'm2']);
  expect(source.waiting).toEqual([]);
  expect(await next()).toEqual([]);
  appendFileSync(file, `\n${line('m3')}`);
  const [m3] = await readAll(source, { positions });
  expect(m3?.headers.get('message-id')).toBe('m3');
  expect(m3?.position).toBe(`${file}:3`);
});

test('a last line that may go on waits although it is JSON, and so does one that is too long already', async () => {
  const number = setUp('number.jsonl', '12');
  expect(await number.next()).toEqual([]);
  expect(number.source.waiting).toMatchObject([{ line: 1, bytes: 2 }]);
  const long = setUp('toolong.jsonl', '{"body":1}          ', { maxLineBytes: 15 });
  expect(await long.next()).toEqual([]);
  expect(long.source.waiting).toMatchObject([{ line: 1, bytes: 20 }]);
});

test('a file that is cut while it is read saves no position beyond its end', async () => {
  const { file, source, positions } = setUp('shrinks.jsonl', line('m1') + line('m2'));
  const run = await open(source, 1, positions);
  const [lane] = run.lanes;
  const deliveries = await lane!.receive(2, run.stop.signal);
  truncateSync(file, 3);
  await ack(lane!, ...deliveries);
  await run.close();
  expect(positions.saves).toEqual([]);
});

test('a position that cannot be saved fails the settle, and at the end is a warning', async () => {
  const { file, source, warnings } = setUp('unsaved.jsonl', line('m1'));
  const down = new Error('the store is down');
  const run = await open(source, 1, { load: async () => undefined, save: () => Promise.reject(down) });
  const [lane] = run.lanes;
  const [m1] = await lane!.receive(1, run.stop.signal);
  await expect(ack(lane!, m1!)).rejects.toBe(down);
  await run.close();
  expect(warnings).toMatchObject([{ code: 'NT_POSITION_UNSAVED', input: file, cause: down }]);
});

test('without onWarning the process warns', async () => {
  const { file, positions } = setUp('process.jsonl', line('m1'));
  await positions.save('wallet', `jsonl:${file}`, 'nonsense');
  const warned = new Promise<Error & { code?: string }>(resolve => process.once('warning', resolve));
  await readAll(jsonlSource(file), { positions });
  expect(await warned).toMatchObject({ name: 'NevertwiceWarning', code: 'NT_INPUT_CHANGED' });
});
