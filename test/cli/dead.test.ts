import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { folderWith, nevertwice } from './program.ts';

const MODULE = `import { existsSync } from 'node:fs';
import { createConsumer } from 'nevertwice';
import { sqliteStore } from 'nevertwice/sqlite';
export default createConsumer({
  name: 'pay',
  store: sqliteStore('x.db'),
  retries: { attempts: 1 },
  setup: async sql => { await sql\`CREATE TABLE IF NOT EXISTS done (id text, currency text, amount int)\`; },
  handle: async (message, { sql }) => {
    if (!existsSync('open') && message.body.amount > 0) throw new Error('no account ' + message.key);
    await sql\`INSERT INTO done VALUES (\${message.id}, \${message.headers.get('currency') ?? '-'}, \${message.body.amount})\`;
    if (existsSync('kill')) process.kill(process.pid, 'SIGKILL');
  },
});
`;

const INPUT = [
  { id: 'm1', key: 'ada', body: { amount: 1, card: '4111111111111111' } },
  { id: 'm2', key: 'bob', body: { amount: 2 } },
  { id: 'm3', key: 'bob', body: { amount: 0 } },
  { key: 'eve', body: { amount: 4 } },
];

async function withLetters() {
  const lines = INPUT.map(message => `${JSON.stringify(message)}\n`).join('');
  const cwd = await folderWith({ 'pay.ts': MODULE, 'in.jsonl': lines });
  const run = await nevertwice(['run', 'pay.ts', '--input', 'in.jsonl'], { cwd });
  expect(run.stdout).toContain('processed 1 · duplicates 0 · conflicts 0 · dead letters 3 ·');
  const dead = (...args: readonly string[]) => nevertwice(['dead', ...args], { cwd, env: { USER: 'ada' } });
  const json = async (...args: readonly string[]) => {
    const { stdout, stderr } = await dead(...args, '--json');
    return JSON.parse(stdout === '' ? `"${stderr}"` : stdout);
  };
  const done = () => {
    using database = new DatabaseSync(join(cwd, 'x.db'));
    return database.prepare('SELECT id, currency, amount FROM done ORDER BY id').all();
  };
  const touch = (file: string) => writeFile(join(cwd, file), '');
  return { cwd, dead, json, done, touch };
}

test('dead lists letters and groups of them, and shows one without its body unless it is asked for', async () => {
  const { dead, json } = await withLetters();
  const all = await json('--store', 'sqlite:x.db');
  expect(all.map((letter: { messageId: unknown; kind: string }) => [letter.messageId, letter.kind])).toEqual([
    [undefined, 'bad-id'],
    ['m1', 'attempts'],
    ['m2', 'attempts'],
  ]);
  const text = await dead('pay.ts', '--kind', 'attempts');
  expect(text.code).toBe(0);
  expect(text.stdout.split('\n')[0]).toMatch(/^id +consumer +message +kind +attempts +fingerprint +last +reason$/);
  expect(text.stdout).toContain('no account ada');
  const groups = await json('--store', 'sqlite:x.db', '--groups');
  expect(groups).toMatchObject([{ letters: 2, kind: 'attempts', fingerprint: all[1].fingerprint }, { letters: 1 }]);
  expect((await dead('--store', 'sqlite:x.db', '--groups')).stdout).toMatch(/^letters .*\n +2 +pay +attempts /);
  expect(await json('--store', 'sqlite:x.db', '--older-than', '1d')).toEqual([]);
  expect(await json('--store', 'sqlite:x.db', '--newer-than', '1d', '--limit', '1')).toHaveLength(1);
  const { id } = all[1];
  const shown = await dead('show', '--store', 'sqlite:x.db', '--id', id);
  expect(shown.stdout).toMatch(/^reason +no account ada$/m);
  expect(shown.stdout).toMatch(/^error +Error: no account ada$/m);
  expect(shown.stdout + JSON.stringify(all)).not.toContain('4111');
  expect((await dead('show', 'pay.ts', '--id', id, '--payload')).stdout).toContain('4111111111111111');
});

test('dead retry sends what was chosen through the handler, once, and keeps who and why', async () => {
  const { dead, json, done, touch } = await withLetters();
  const [, one, two] = await json('--store', 'sqlite:x.db');
  const failed = await dead('retry', 'pay.ts', '--fingerprint', one.fingerprint);
  expect([failed.code, failed.stdout]).toEqual([0, 'processed 0 · duplicate 0 · failed 2\n']);
  expect(failed.stderr).toContain(`letter ${one.id}, message m1: failed: no account ada`);
  await touch('open');
  const dry = await json('retry', 'pay.ts', '--message', 'm1', '--dry-run');
  expect(dry).toMatchObject({ 'would-retry': 1, letters: [{ messageId: 'm1', outcome: 'would-retry' }] });
  expect(done()).toHaveLength(1);
  const edited = await json('retry', 'pay.ts', '--id', two.id, '--header', 'currency=EUR', '--reason', 'no currency');
  expect(edited).toMatchObject({ processed: 1 });
  expect(await json('retry', 'pay.ts', '--fingerprint', one.fingerprint, '--by', 'eve')).toMatchObject({
    processed: 1,
  });
  expect(done()).toMatchObject([{ id: 'm1' }, { id: 'm2', currency: 'EUR' }, { id: 'm3' }]);
  const closed = await json('--store', 'sqlite:x.db', '--closed');
  expect(closed).toMatchObject([
    { messageId: 'm1', outcome: 'processed' },
    { messageId: 'm2', outcome: 'processed', revision: 1 },
  ]);
  expect(closed[0].history.map((e: { action: string; by?: string }) => [e.action, e.by])).toEqual([
    ['retry', 'ada'],
    ['retry', 'eve'],
    ['processed', undefined],
  ]);
  expect(closed[1].history[1]).toMatchObject({ action: 'revise', by: 'ada', reason: 'no currency' });
});

test('dead retry --body mends a message, and --header gives one an id', async () => {
  const { cwd, dead, json, done, touch } = await withLetters();
  await touch('open');
  await writeFile(join(cwd, 'body.json'), '{"amount":40}');
  const [nameless] = await json('--store', 'sqlite:x.db');
  const mend = ['retry', 'pay.ts', '--id', nameless.id, '--header', 'message-id=m4', '--body', 'body.json'];
  expect(await dead(...mend)).toMatchObject({ code: 1, stderr: expect.stringContaining('--reason') });
  expect(await json(...mend, '--reason', 'sent without an id')).toMatchObject({ processed: 1 });
  expect(done()).toMatchObject([{ id: 'm3' }, { id: 'm4', amount: 40 }]);
});

test('a process that is killed in a redrive leaves the letter open, and the next retry has the effect once', async () => {
  const { cwd, dead, json, done, touch } = await withLetters();
  await touch('open');
  await touch('kill');
  const killed = await nevertwice(['dead', 'retry', 'pay.ts', '--message', 'm1'], { cwd });
  expect(killed.signal).toBe('SIGKILL');
  expect(done()).toHaveLength(1);
  await rm(join(cwd, 'kill'));
  expect((await dead('retry', 'pay.ts', '--all')).stdout).toBe('processed 2 · duplicate 0 · failed 1\n');
  expect((await dead('retry', 'pay.ts', '--message', 'm1')).stdout).toBe('processed 0 · duplicate 0 · failed 0\n');
  expect(done()).toMatchObject([{ id: 'm1' }, { id: 'm2' }, { id: 'm3' }]);
  expect(await json('pay.ts')).toHaveLength(1);
});

test('dead discard closes without handling, export gives lines that run reads', async () => {
  const { cwd, dead, json, done } = await withLetters();
  const lines = (await dead('export', 'pay.ts', '--kind', 'attempts')).stdout;
  expect(JSON.parse(lines.split('\n')[0]!)).toMatchObject({
    id: 'm1',
    key: 'ada',
    body: { amount: 1 },
    letter: { kind: 'attempts', reason: 'no account ada' },
  });
  expect(await json('discard', 'pay.ts', '--key', 'ada', '--reason', 'test', '--dry-run')).toMatchObject({
    discarded: 1,
  });
  expect((await dead('discard', 'pay.ts', '--all', '--reason', 'test')).stdout).toBe('discarded 3 · busy or gone 0\n');
  expect(await json('pay.ts')).toEqual([]);
  expect(done()).toHaveLength(1);
  await writeFile(join(cwd, 'again.jsonl'), lines);
  await writeFile(join(cwd, 'open'), '');
  const run = await nevertwice(['run', 'pay.ts', '--input', 'again.jsonl'], { cwd });
  expect(run.stdout).toContain('processed 2 ');
});

test.each([
  [['retry', 'pay.ts'], 'dead retry needs to know which letters'],
  [['retry', 'pay.ts', '--all', '--id', '1'], '--all goes without conditions'],
  [['retry', '--store', 'sqlite:x.db', '--all'], 'needs the module whose handler'],
  [['retry', 'pay.ts', '--all', '--rate', '0'], '--rate is "0"'],
  [['retry', 'pay.ts', '--all', '--body', 'nothing.json', '--reason', 'x'], 'nothing.json cannot be read (ENOENT)'],
  [['retry', 'pay.ts', '--all', '--header', 'currency', '--reason', 'x'], 'give name=value'],
  [['retry', 'pay.ts', '--all', '--header', 'a=b', '--reason', 'x'], 'an edit is for one dead letter'],
  [['retry', 'pay.ts', '--older-than', '7'], '--older-than is "7"'],
  [['discard', 'pay.ts', '--all'], 'dead discard needs --reason'],
  [['show', 'pay.ts'], 'dead show needs one letter'],
  [['show', 'pay.ts', '--id', '999'], 'there is no letter 999 here'],
  [['--store', 'sqlite:y.db'], 'there is no file y.db'],
])('dead %s: says what is wrong, and changes nothing', async (args, words) => {
  const { dead, json } = await withLetters();
  const { code, stdout, stderr } = await dead(...args);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(words);
  expect(await json('--store', 'sqlite:x.db')).toHaveLength(3);
});
