import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { folderWith, nevertwice } from './program.ts';

const intent = { consumer: 'pay', name: 'charge', fingerprint: undefined, leaseMs: 60_000, takeOver: false };

test('effects lists calls, and decide says what became of one that is unknown, once', async () => {
  const cwd = await folderWith();
  const effects = (...args: readonly string[]) => nevertwice(['effects', ...args, '--store', 'sqlite:x.db'], { cwd });
  const store = sqliteStore(join(cwd, 'x.db'));
  const rows = store.effects!;
  for (const n of [1, 2, 3]) await rows.begin({ ...intent, key: `nt1_${n}`, messageId: `m${n}`, nonce: `${n}` });
  for (const n of [1, 2]) await rows.giveUp(`nt1_${n}`, `${n}`, false);

  const unknown = await effects('--state', 'unknown');
  const [head, ...lines] = unknown.stdout.trimEnd().split('\n');
  expect(head).toMatch(/^key .* calls/);
  expect(lines.sort()).toEqual([
    expect.stringMatching(/^nt1_1 +pay +charge +m1 +unknown +1 /),
    expect.stringMatching(/^nt1_2 /),
  ]);
  const done = await effects('decide', '--key', 'nt1_1', '--result', '{"charge": "ch_1"}', '--json');
  expect(JSON.parse(done.stdout)).toMatchObject([{ key: 'nt1_1', state: 'done', calls: 1 }]);
  expect((await effects('decide', '--key', 'nt1_2', '--not-done')).stdout).toContain('not-done');
  // The one that runs, and the one that was decided, are nobody's to decide.
  for (const key of ['nt1_3', 'nt1_1']) {
    expect(await effects('decide', '--key', key, '--not-done')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(`the call ${key} is not unknown`),
    });
  }
  const answers = await Promise.all(
    [1, 2, 3].map(n => rows.begin({ ...intent, key: `nt1_${n}`, messageId: `m${n}`, nonce: 'again' })),
  );
  expect(answers).toEqual([
    { answer: 'done', result: '{"charge":"ch_1"}' },
    { answer: 'call', unknown: false },
    { answer: 'busy' },
  ]);
  expect((await effects('--consumer', 'nobody')).stdout).toBe('no such calls\n');
  await store.close();
});

test.each([
  [['--state', 'lost'], '--state must be one of calling, unknown, done, not-done'],
  [['decide', '--key', 'k'], 'effects decide needs --key, and either --result JSON or --not-done'],
  [['decide', '--key', 'k', '--not-done', '--result', '1'], 'either --result JSON or --not-done'],
  [['decide', '--key', 'k', '--result', 'ch_1'], '--result is not JSON'],
])('effects %s: %s', async (args, text) => {
  const cwd = await folderWith();
  expect(await nevertwice(['effects', ...args, '--store', 'sqlite:x.db'], { cwd })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(text),
  });
});
