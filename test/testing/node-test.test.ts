import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const file = fileURLToPath(new URL('wallet-under-node-test.ts', import.meta.url));

/** Runs the file under Node's own test runner, as a user does. */
function nodeTest(env: Readonly<Record<string, string>>): Promise<{ code: number; output: string }> {
  // A run inside another run of node:test would report to that one.
  const { NODE_TEST_CONTEXT: _, ...own } = process.env;
  return new Promise(resolve => {
    const options = { env: { ...own, ...env }, timeout: 20_000 };
    execFile(process.execPath, ['--test', '--test-reporter=tap', file], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), output: stdout + stderr });
    });
  });
}

test('testConsumer is at home in node:test', async () => {
  const { code, output } = await nodeTest({});
  expect(output).toMatch(/# pass 3\n/);
  expect(output).toMatch(/# fail 0\n/);
  expect(code).toBe(0);
});

test('a test that fails while it holds a message fails by name and does not hang', async () => {
  const { code, output } = await nodeTest({ WRONG: '1' });
  expect(output).toMatch(/not ok 3 - nothing is visible before the commit/);
  expect(output).toMatch(/# pass 2\n/);
  expect(output).toMatch(/# fail 1\n/);
  expect(code).toBe(1);
});
