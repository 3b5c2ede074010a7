import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { folderWith, nevertwice } from './program.ts';

const MODULE = `import { createConsumer } from 'nevertwice';
import { sqliteStore } from 'nevertwice/sqlite';
export default createConsumer({ name: 'pay', store: sqliteStore('x.db'), dedupe: 'position', handle() {} });
`;

async function withLanes(...names: readonly string[]) {
  const cwd = await folderWith({ 'a.ts': MODULE });
  const store = sqliteStore(join(cwd, 'x.db'));
  for (const name of names) {
    await store.open({ name, signature: 's' });
    for (const lane of ['payments/0', 'payments/1']) {
      const { epoch } = await store.lanes.raise(name, lane);
      await store.lanes.begin(name, lane, epoch, {
        position: 9_007_199_254_740_993n,
        log: 'cluster=c',
        mark: undefined,
      });
    }
  }
  await store.close();
  return (...args: readonly string[]) => nevertwice(['positions', ...args], { cwd });
}

test('positions lists every lane, and tells the answers that wait', async () => {
  const positions = await withLanes('pay');
  const { code, stdout } = await positions('--store', 'sqlite:x.db');
  expect(code).toBe(0);
  expect(stdout).toBe(`consumer  lane                position  epoch  begins at
pay       payments/0  9007199254740993      1  -
pay       payments/1  9007199254740993      1  -
`);
  const accepted = await positions('accept', 'a.ts', '--lane', 'payments/1');
  expect(accepted.code).toBe(0);
  expect(accepted.stdout).toMatch(/payments\/1 .* 2 {2}group\n$/);
  expect(accepted.stderr).toContain('within ten seconds');
  const reset = await positions('reset', 'a.ts', '--lane', 'payments/0', '--to', '17', '--json');
  expect(JSON.parse(reset.stdout)).toEqual([
    {
      consumer: 'pay',
      lane: 'payments/0',
      position: '9007199254740993',
      epoch: '2',
      log: 'cluster=c',
      mark: null,
      beginAt: '17',
    },
  ]);
});

test.each([
  [['reset', 'a.ts'], 'reset needs --to earliest, latest, position, or an offset'],
  [['reset', 'a.ts', '--to', 'first'], 'reset needs --to earliest'],
  [['reset', 'a.ts', '--to', '9223372036854775808'], 'reset needs --to earliest'],
  [['accept', 'a.ts', '--to', 'latest'], '--to belongs to positions reset'],
  [['accept', 'a.ts', '--lane', 'payments/7'], 'pay has no lane "payments/7" here'],
  [['accept', '--store', 'sqlite:x.db'], 'several consumers have such lanes: pay, ship; give --consumer'],
  [['accept', '--store', 'sqlite:x.db', '--consumer', 'nobody'], 'nobody keeps no positions here yet'],
  [['--store', 'memory:'], 'is a lease store and keeps no positions'],
  [['--store', 'sqlite:y.db'], 'there is no file y.db'],
])('positions %s: says what is wrong, and changes nothing', async (args, words) => {
  const positions = await withLanes('pay', 'ship');
  const { code, stdout, stderr } = await positions(...args);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(words);
  const rows = JSON.parse((await positions('--store', 'sqlite:x.db', '--json')).stdout) as { beginAt: unknown }[];
  expect(rows.map(row => row.beginAt)).toEqual([null, null, null, null]);
});
