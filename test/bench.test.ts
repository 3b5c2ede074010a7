import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { type Contestant, contest, resultsFor } from '../bench/contest.ts';
import { balancesAfter, topicLoad } from '../bench/kafka/load.ts';
import { jsonOf, tableOf } from '../bench/report.ts';
import { assertBalances, loadOf } from '../bench/sql/load.ts';
import { suites } from '../bench/suites.ts';

const main = fileURLToPath(new URL('../bench/main.ts', import.meta.url));

const bench = (...args: string[]) => promisify(execFile)(process.execPath, [main, ...args]);

test('the smallest run prints one JSON element a row, after checking the balances of every run', async () => {
  const { stdout, stderr } = await bench(
    'sql',
    '--quick',
    '--json',
    '--only',
    'sql.sqlite.batch,sql.sqlite.loop.batch',
  );
  const results = JSON.parse(stdout) as Record<string, unknown>[];
  expect(results).toEqual([
    {
      id: 'sql.sqlite.loop.batch',
      value: expect.any(Number),
      unit: 'events/s',
      against: null,
      ratio: null,
      spread: expect.any(Number),
    },
    {
      id: 'sql.sqlite.batch',
      value: expect.any(Number),
      unit: 'events/s',
      against: 'sql.sqlite.loop.batch',
      ratio: expect.any(Number),
      spread: expect.any(Number),
    },
    expect.objectContaining({ id: 'sql.sqlite.batch.naive', against: 'sql.sqlite.naive', ratio: expect.any(Number) }),
  ]);
  expect(results.map(result => result.value)).not.toContainEqual(0);
  expect(results[1]?.ratio).toBeGreaterThan(0);
  const checked = /all balances were right after each of (\d+) runs, in (\d+) rounds/.exec(stderr);
  expect(Number(checked?.[1])).toBe(3 * (Number(checked?.[2]) + 1));
}, 60_000);

function contestant(id: string, check: () => Promise<void>): Contestant {
  return { id, events: 1_000, prepare: async () => async () => undefined, check };
}

test('a contestant whose effects come out wrong fails the bench by name, in the round that warms up too', async () => {
  const load = loadOf(100);
  const right = load.once.map((balance, id) => ({ id, balance }));
  expect(() => assertBalances(right, load.once)).not.toThrow();
  const doubled = right.map(({ id, balance }) => ({ id, balance: id === 8 ? balance * 2 : balance }));
  const wrong = contestant('doubling', async () => assertBalances(doubled, load.once));
  await expect(contest([contestant('fine', async () => undefined), wrong], { rounds: 1 })).rejects.toThrow(
    'doubling came out wrong: 1 of 1000 balances are wrong; wallet 8 has 18 instead of 9',
  );
  expect(() => assertBalances(right.slice(1), load.once)).toThrow('999 wallets instead of 1000');
});

test('a load has one copy in ten, near and far ones, and knows both sums', () => {
  const { lanes, events, messages, once, everyCopy } = loadOf(4_000, 2);
  const ids = lanes.map(lane => lane.map(message => message.id));
  expect(ids.flat()).toHaveLength(events);
  expect(new Set(ids.flat()).size).toBe(messages);
  expect(events - messages).toBeGreaterThan(0.08 * events);
  const distances = ids.flatMap(lane => lane.map((id, i) => i - lane.indexOf(id)).filter(distance => distance > 0));
  expect(Math.min(...distances)).toBe(1);
  expect(Math.max(...distances)).toBeGreaterThan(500);
  const sum = (balances: readonly number[]) => balances.reduce((total, balance) => total + balance, 0);
  expect(sum(everyCopy)).toBeGreaterThan(sum(once));
  const first = new Set(ids[0]);
  expect(ids[1]!.filter(id => first.has(id))).toEqual([]);
});

test('the records of a topic come to the sums that they are checked against, with copies and without', () => {
  for (const copies of [true, false]) {
    const { sent, events, messages, once } = topicLoad(2_345, 4, { copies });
    const records = [...sent()];
    expect(records).toHaveLength(events);
    const different = new Map(records.map(record => [record.headers['message-id'], record]));
    expect(different.size).toBe(messages);
    expect(messages === events).toBe(!copies);
    const sums = new Array<number>(1_000).fill(0);
    for (const { value, partition } of different.values()) {
      const { wallet, amount } = JSON.parse(value) as { wallet: number; amount: number };
      expect(partition).toBe(wallet % 4);
      sums[wallet]! += amount;
    }
    expect(once).toEqual(sums);
    expect(balancesAfter(messages)).toEqual(sums);
  }
});

test('a row with more than one number stands in a table of its own and keeps them in the JSON', () => {
  const common = { what: '', unit: 'events/s', against: null, ratio: null, spread: 0, target: undefined };
  const more = { 'peak memory': { value: 120.4, unit: 'MB' } };
  const results = [
    { ...common, id: 'plain', value: 10 },
    { ...common, id: 'scale', value: 20, more },
  ];
  const [compared, several] = tableOf(results).split('\n\n');
  expect(compared).toContain('plain');
  expect(compared).not.toContain('scale');
  expect(several).toMatch(/peak memory\n.*\nscale +20 events\/s +0 % +120 MB$/);
  expect(jsonOf(results).map(element => element.more)).toEqual([
    undefined,
    { 'peak memory': { value: 120, unit: 'MB' } },
  ]);
});

test('rivals are compared round by round, so that a slow round of the machine does not count', () => {
  const timings = (rates: number[]) => rates.map(rate => ({ rate, cpuUs: 1, more: {} }));
  const rates = new Map([
    ['ours', timings([800, 80, 1_600])],
    ['loop', timings([1_000, 100, 2_000])],
  ]);
  const [result] = resultsFor([{ id: 'ours', what: '', against: 'loop', target: 0.8 }], rates);
  expect(jsonOf([result!])).toEqual([
    { id: 'ours', value: 800, unit: 'events/s', against: 'loop', ratio: 0.8, spread: 0 },
  ]);
});

test('what else was measured is the median of its rounds', () => {
  const timings = [3, 1, 2].map(ms => ({ rate: 1, cpuUs: 1, more: { mean: { value: ms, unit: 'ms' } } }));
  const [result] = resultsFor([{ id: 'ours', what: '' }], new Map([['ours', timings]]));
  expect(result!.more).toEqual({ mean: { value: 2, unit: 'ms' } });
});

test('every row has an id of its own that the README explains', async () => {
  const ids = suites.flatMap(suite => suite.ids);
  expect(new Set(ids).size).toBe(ids.length);
  const readme = await readFile(new URL('../bench/README.md', import.meta.url), 'utf8');
  expect(ids.filter(id => !readme.includes(`\`${id}\``))).toEqual([]);
});

test('a row or suite that does not exist is refused with what there is', async () => {
  await expect(bench('sql', '--only', 'sql.pg.nothing')).rejects.toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining('there is no row sql.pg.nothing; there are sql.pg'),
  });
  await expect(bench('speed')).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('no suite speed') });
});
