import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { folderWith, line, nevertwice, PAYMENTS, start, WALLET } from './program.ts';

const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

describe('help', () => {
  test('--version', async () => {
    expect(await nevertwice(['--version'])).toMatchObject({ code: 0, stdout: `${manifest.version}\n`, stderr: '' });
  });

  test.each([
    ['run', 'nevertwice run <module> [--input FILE|-]... [--store URL] [--json]'],
    ['migrate', 'nevertwice migrate [<module>] [--store URL] [--print] [--json]'],
    ['stats', 'nevertwice stats [<module>] [--store URL] [--json]'],
    ['demo', 'nevertwice demo [--seed N] [--kills N] [--json]'],
  ])('%s --help explains it and lists its exit codes, also beside wrong arguments', async (command, usage) => {
    const { code, stdout, stderr } = await nevertwice([command, '--no-such-option', '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.startsWith(`${usage}\n`)).toBe(true);
    expect(stdout).toContain('Exit codes: 0 ');
    expect(Math.max(...stdout.split('\n').map(text => text.length))).toBeLessThanOrEqual(120);
    expect((await nevertwice(['help', command])).stdout).toBe(stdout);
  });

  test('--help names every command', async () => {
    const { code, stdout } = await nevertwice(['--help']);
    expect(code).toBe(0);
    for (const command of [
      'run',
      'migrate',
      'stats',
      'positions',
      'dead',
      'effects',
      'relay',
      'outbox',
      'verify',
      'demo',
    ])
      expect(stdout).toContain(`nevertwice ${command} `);
  });

  test('without a command it is shown too, and that is a mistake', async () => {
    const { code, stdout, stderr } = await nevertwice([]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toBe((await nevertwice(['--help'])).stdout);
  });
});

test.each([
  [
    ['runn'],
    'there is no command runn; there are run, migrate, stats, positions, dead, effects, relay, outbox, verify, demo',
  ],
  [['run'], 'run needs a module: nevertwice run <module>; see nevertwice run --help'],
  [['run', WALLET, '--stroe', 'x'], "Unknown option '--stroe'; see nevertwice run --help"],
  [
    ['run', WALLET, '--input', 'a', 'b'],
    'unexpected argument b (for several files repeat --input); see nevertwice run --help',
  ],
  [['run', WALLET, '--store'], "Option '--store <value>' argument missing; see nevertwice run --help"],
  [['demo', '--kills', '1'], '--kills is "1"; give a whole number from 2 to 1000'],
  [['demo', '--seed', '-1'], "Option '--seed' argument is ambiguous; see nevertwice demo --help"],
  [
    ['stats'],
    'stats needs a store; give --store URL (sqlite:FILE, postgres://USER@HOST/DATABASE or memory:), or a module that has one',
  ],
  [['migrate', '--store', 'memory:'], 'memory has no tables, so there is nothing to migrate'],
])('a mistake in the command line is one line: %j', async (args, text) => {
  expect(await nevertwice(args)).toMatchObject({ code: 1, stdout: '', stderr: `error: ${text}\n` });
});

test.each([
  [
    'mysql://app:secret@db/shop',
    'names no store that there is; give sqlite:FILE, postgres://USER@HOST/DATABASE or memory:',
  ],
  ['wallet.db', 'names no store that there is; give sqlite:FILE, postgres://USER@HOST/DATABASE or memory:'],
  ['sqlite:', 'sqlite: names no file; give sqlite:FILE, or sqlite::memory:'],
  [
    'postgres://app:sec#ret@db/shop',
    'is no URL of a database; give postgres://USER:PASSWORD@HOST:5432/DATABASE, with %-escapes for special characters',
  ],
])('a wrong --store is told without repeating it: %s', async (url, text) => {
  const ended = await nevertwice(['run', WALLET, '--input', PAYMENTS, '--store', url]);
  expect(ended).toMatchObject({ code: 1, stdout: '', stderr: `error: --store ${text}\n` });
});

test.each(['22.17.1', '20.20.2'])('Node.js %s is refused in one line', async version => {
  const pretend = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`;
  expect(await nevertwice(['--version'], { node: ['--import', `data:text/javascript,${pretend}`] })).toMatchObject({
    code: 1,
    stdout: '',
    stderr: `nevertwice needs Node.js 22.18 or newer, and this is ${version}; install a newer one\n`,
  });
});

test('main.ts loads nothing before it knows the version, so that it loads on any', () => {
  const text = readFileSync(new URL('../../src/cli/main.ts', import.meta.url), 'utf8');
  expect(text).not.toMatch(/^import /m);
});

test.each([
  [
    'a file that is not there',
    ['--input', 'no.jsonl', '--store', 'sqlite:x.db'],
    1,
    'input no.jsonl does not exist; give a file of one JSON message a line',
  ],
  [
    'the same file twice',
    ['--input', 'a.jsonl', '--input', './a.jsonl', '--store', 'sqlite:x.db'],
    1,
    'input ./a.jsonl is named twice, so its lines would race; name it once',
  ],
  [
    'a database in a folder that is not there',
    ['--input', 'a.jsonl', '--store', 'sqlite:no/x.db'],
    1,
    'sqlite no/x.db: the directory of the file does not exist; create it first',
  ],
  [
    'a database that is none',
    ['--input', 'a.jsonl', '--store', 'sqlite:a.jsonl'],
    2,
    'sqlite a.jsonl is no SQLite database or is damaged (SQLITE 26); check the path',
  ],
  [
    'a store without transactions for a consumer with a setup',
    ['--input', 'a.jsonl', '--store', 'memory:'],
    1,
    'setup needs a transactional store (PostgreSQL, SQLite), and memory is a lease store',
  ],
])('%s', async (_, flags, code, text) => {
  const cwd = await folderWith({ 'a.jsonl': '{"id":"m1","body":1}\n' });
  expect(await nevertwice(['run', WALLET, ...flags], { cwd })).toMatchObject({
    code,
    stdout: '',
    stderr: `error: ${text}\n`,
  });
});

test('dead letters and conflicts are decisions: counted, and the exit code stays 0', async () => {
  const payment = (id: string, cents: unknown, type = 'PaymentReceived') =>
    JSON.stringify({ id, type, key: 'a', body: { customer_id: 'a', amount_cents: cents } });
  const lines = [
    payment('p1', 500),
    payment('p2', -1),
    payment('p1', 900),
    payment('p3', 1, 'Refund'),
    '{"id":"p4"',
    payment('p1', 500),
  ];
  const cwd = await folderWith({ 'a.jsonl': `${lines.join('\n')}\n` });
  const ended = await nevertwice(['run', WALLET, '--input', 'a.jsonl', '--store', 'sqlite:x.db'], { cwd });
  expect(ended).toMatchObject({ code: 0, stdout: line(1, 1, { conflicts: 1, dead: 3 }) });
  expect(ended.stderr).toMatch(/^warning: .*another payload.*\n$/);
});

test('a last line that is not all there yet is told, and waits', async () => {
  const cwd = await folderWith({
    'a.jsonl': '{"id":"p1","type":"PaymentReceived","body":{"customer_id":"a","amount_cents":1}}\n{"id":"p2","ty',
  });
  const { code, stdout, stderr } = await nevertwice(
    ['run', WALLET, '--input', 'a.jsonl', '--store', 'sqlite:x.db', '--json'],
    { cwd },
  );
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ processed: 1, deadLetters: 0 });
  expect(stderr).toBe(
    'note: a.jsonl:2 ends without a line end after 14 bytes and is not complete; it waits for the next run\n',
  );
});

test('who reads the result may go away early', async () => {
  const cwd = await folderWith();
  const { child, ended } = start(['run', WALLET, '--input', PAYMENTS, '--store', 'sqlite:x.db'], { cwd });
  child.stdout?.destroy();
  expect(await ended).toMatchObject({ code: 0, stderr: '' });
  const again = await nevertwice(['run', WALLET, '--input', PAYMENTS, '--store', 'sqlite:x.db'], { cwd });
  expect(again).toMatchObject({ code: 0, stdout: line(0, 0) });
});

test('on a terminal one line is drawn over and over, with what is left; elsewhere lines are rare', async () => {
  const slow = `import { createConsumer } from 'nevertwice';
export default createConsumer({ name: 'x', handle: async () => { await new Promise(done => setTimeout(done, 900)); console.log('done one'); } });
`;
  const cwd = await folderWith({ 'a.ts': slow, 'a.jsonl': '{"id":"m1","body":1}\n' });
  const run = (terminal: boolean, store: string) =>
    nevertwice(['run', 'a.ts', '--input', 'a.jsonl', '--store', store], {
      cwd,
      node: terminal
        ? ['--import', 'data:text/javascript,process.stderr.isTTY = true; process.stderr.columns = 60']
        : [],
    });
  const live = await run(true, 'memory:');
  expect(live).toMatchObject({ code: 0, stdout: line(1, 0) });
  const [first, ...drawings] = live.stderr.split('0 messages · 0 duplicates · 0/s · 21 B left\n');
  expect(first).toBe('');
  expect(drawings.length).toBeGreaterThanOrEqual(2);
  expect(drawings.filter(after => !after.startsWith('\r\x1b[1A\x1b[0J'))).toEqual([]);
  // What a handler prints stands on a line of its own.
  expect(live.stderr).toContain('\x1b[0Jdone one\n');
  expect(await run(false, 'memory:')).toMatchObject({ code: 0, stdout: line(1, 0), stderr: 'done one\n' });
});
