import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { folderWith, line, nevertwice, PAYMENTS, WALLET } from './program.ts';

const CONSUMER = `import { createConsumer } from 'nevertwice';
export default createConsumer({ name: 'x', handle: async (message, { sql }) => void (await sql\`SELECT 1\`) });
`;
const ONE = '{"id":"m1","body":1}\n';

/** Runs a module and expects it to be refused with this text and nothing else. */
async function refused(files: Readonly<Record<string, string>>, text: string): Promise<void> {
  const [module = ''] = Object.keys(files);
  const cwd = await folderWith({ ...files, 'one.jsonl': ONE });
  const ended = await nevertwice(['run', module, '--input', 'one.jsonl', '--store', 'memory:'], { cwd });
  expect(ended).toMatchObject({ code: 1, stdout: '', stderr: `error: ${text}\n` });
}

describe('a module that cannot be loaded is told in one line', () => {
  test('decorators need compiling first', () =>
    refused(
      { 'a.ts': 'const log = (target: unknown, _: unknown) => target;\n\n@log\nexport default class A {}\n' },
      'a.ts:3: decorators are more than types to strip, so they need compiling first; compile the module and run the result',
    ));

  test('decorators in a file that it imports', () =>
    refused(
      {
        'a.ts': 'import B from "./b.ts";\nexport default B;\n',
        'b.ts': 'export default class B {\n  @log method(): void {}\n}\n',
      },
      'b.ts:2: decorators are more than types to strip, so they need compiling first; compile the module and run the result',
    ));

  test.each([
    ['enum', 'enum Colour { Red }\nexport default Colour;\n', 'a.ts:1: TypeScript enum is not supported'],
    ['namespace', '\nnamespace N { export const a = 1 }\nexport default N;\n', 'a.ts:2: TypeScript namespace'],
    [
      'parameter property',
      'export default class A {\n  constructor(private x: number) {}\n}\n',
      'a.ts:2: TypeScript param',
    ],
  ])('%s is more than a type to strip', async (_, text, expected) => {
    const cwd = await folderWith({ 'a.ts': text });
    const { code, stderr } = await nevertwice(['run', 'a.ts'], { cwd });
    expect(code).toBe(1);
    expect(stderr.startsWith(`error: ${expected}`)).toBe(true);
    expect(stderr).toMatch(/compile the module and run the result\n$/);
    expect(stderr.split('\n')).toHaveLength(2);
  });

  test('a syntax error in TypeScript', () =>
    refused({ 'a.ts': 'export const a = 1;\nconst b: number = = 2;\n' }, 'a.ts:2: syntax error: Expression expected'));

  test('a syntax error in JavaScript', () =>
    refused({ 'a.mjs': 'export const a = 1;\nconst b = = 2;\n' }, "a.mjs:2: syntax error: Unexpected token '='"));

  test('an imported type without `import type`', () =>
    refused(
      {
        'a.ts': 'import { Thing } from "./b.ts";\nexport default {} as Thing;\n',
        'b.ts': 'export type Thing = object;\n',
      },
      "a.ts:1: The requested module './b.ts' does not provide an export named 'Thing'; if that is a type, write: import type",
    ));

  test('a package that is not installed', async () => {
    const cwd = await folderWith({ 'a.ts': "import 'no-such-package';\n" });
    const { code, stderr } = await nevertwice(['run', 'a.ts'], { cwd });
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^error: Cannot find package 'no-such-package' imported from .*a\.ts; install it with npm\n$/,
    );
  });

  test('a TypeScript file imported under the name that it would have when compiled', async () => {
    const cwd = await folderWith({ 'a.ts': "import './b.js';\n", 'b.ts': 'export {};\n' });
    const { stderr } = await nevertwice(['run', 'a.ts'], { cwd });
    expect(stderr).toMatch(/^error: Cannot find module .*; import it as it is on disk, b\.ts: nothing renames .*\n$/);
  });

  test.each([
    ['x.ts', 'module x.ts does not exist (looked for '],
    ['.', 'module . is a directory; name the file in it'],
    ['a.jsonl', 'Unknown file extension ".jsonl" for '],
  ])('%s', async (module, expected) => {
    const cwd = await folderWith({ 'a.jsonl': ONE });
    const { code, stdout, stderr } = await nevertwice(['run', module], { cwd });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr.startsWith(`error: ${expected}`)).toBe(true);
    expect(stderr.split('\n')).toHaveLength(2);
  });
});

describe('a module that throws', () => {
  test('shows its own words and where in the user’s file it was', () =>
    refused(
      {
        'a.ts':
          "import { readFileSync } from 'node:fs';\nexport default load();\nfunction load(): string {\n  return readFileSync('nothing.json', 'utf8');\n}\n",
      },
      "ENOENT: no such file or directory, open 'nothing.json'\n    at load (a.ts:4:10)",
    ));

  test('also when it throws no error', () =>
    refused({ 'a.ts': "throw 'boom';\n" }, 'module a.ts threw boom while it was loading'));

  test('in its setup', () =>
    refused(
      {
        'a.ts': `import { createConsumer } from 'nevertwice';\nexport default createConsumer({ name: '', handle() {} });\n`,
      },
      'a consumer needs a name of 1 to 200 characters: it scopes deduplication, so it must stay the same over hosts, queues and deployments',
    ));
});

describe('what a module exports', () => {
  const wrong = (found: string) =>
    `module a.ts ${found}; it must have: export default createConsumer({ name, handle, … })`;

  test('nothing by default', () => refused({ 'a.ts': 'export const a = 1;\n' }, wrong('has no default export')));
  test('an object', () =>
    refused({ 'a.ts': 'export default {};\n' }, wrong('exports an object by default, and no consumer')));
  test('a promise', () =>
    refused(
      { 'a.ts': 'export default Promise.resolve({});\n' },
      wrong('exports a promise by default, which needs an await'),
    ));

  test.each([
    ['a.ts', CONSUMER],
    ['a.mjs', CONSUMER],
    [
      'a.cjs',
      `const { createConsumer } = require('nevertwice');\nmodule.exports = createConsumer({ name: 'x', handle() {} });\n`,
    ],
    // As TypeScript and Babel compile `export default` to CommonJS.
    [
      'b.cjs',
      `exports.__esModule = true;\nexports.default = require('nevertwice').createConsumer({ name: 'x', handle() {} });\n`,
    ],
  ])('a consumer in %s, with the command’s own nevertwice where none is installed', async (module, text) => {
    const cwd = await folderWith({ [module]: text, 'one.jsonl': ONE });
    const { code, stdout, stderr } = await nevertwice(
      ['run', module, '--input', 'one.jsonl', '--store', 'sqlite:x.db'],
      { cwd },
    );
    expect({ code, stdout, stderr }).toMatchObject({ code: 0, stdout: line(1, 0) });
  });

  test('an installed nevertwice wins over the command’s own', async () => {
    const cwd = await folderWith({ 'a.mjs': "import 'nevertwice';\n", 'one.jsonl': ONE });
    const installed = join(cwd, 'node_modules/nevertwice');
    await mkdir(installed, { recursive: true });
    await writeFile(
      join(installed, 'package.json'),
      '{ "name": "nevertwice", "type": "module", "exports": "./index.js" }',
    );
    await writeFile(join(installed, 'index.js'), "throw new Error('the installed one');\n");
    const { stderr } = await nevertwice(['run', 'a.mjs'], { cwd });
    expect(stderr).toContain('the installed one');
  });

  test('what it prints goes to standard error, so that the result can be piped', async () => {
    const chatty = `console.log('loading');\n${CONSUMER.replace('void (', "console.log('handling') ?? void (")}`;
    const cwd = await folderWith({ 'a.ts': chatty, 'one.jsonl': ONE });
    const { stdout, stderr } = await nevertwice(
      ['run', 'a.ts', '--input', 'one.jsonl', '--store', 'sqlite:x.db', '--json'],
      { cwd },
    );
    expect(JSON.parse(stdout)).toEqual({ processed: 1, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });
    expect(stderr).toBe('loading\nhandling\n');
  });
});

test('flags override the source and the store of the module', async () => {
  const own = `import { createConsumer } from 'nevertwice';
import { memorySource } from 'nevertwice/memory';
import { sqliteStore } from 'nevertwice/sqlite';
const source = memorySource([{ id: 'own-1', body: 1 }, { id: 'own-2', body: 1 }, { id: 'own-3', body: 1 }]);
export default createConsumer({ name: 'x', source, store: sqliteStore('own.db'), handle: async (_, { sql }) => void (await sql\`SELECT 1\`) });
`;
  const cwd = await folderWith({ 'a.ts': own, 'one.jsonl': ONE });
  const run = async (...flags: string[]) => (await nevertwice(['run', 'a.ts', ...flags], { cwd })).stdout;
  expect(await run()).toBe(line(3, 0));
  expect(await run('--input', 'one.jsonl')).toBe(line(1, 0));
  expect(await run('--store', 'sqlite:other.db')).toBe(line(3, 0));
  expect(await run()).toBe(line(0, 3));
});

test('neither the module nor a flag gives a source, or a store', async () => {
  const run = (...args: string[]) => nevertwice(['run', WALLET, ...args]);
  expect(await run('--store', 'memory:')).toMatchObject({
    code: 1,
    stdout: '',
    stderr: 'error: consumer wallet has no source; give --input FILE, or --input - for standard input\n',
  });
  expect(await run('--input', PAYMENTS)).toMatchObject({
    code: 1,
    stdout: '',
    stderr:
      'error: consumer wallet has no store; give --store URL (sqlite:FILE, postgres://USER@HOST/DATABASE or memory:)\n',
  });
});
