import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { until } from '../support/until.ts';
import { folderWith, line, nevertwice, start } from './program.ts';

// A handler says that it has started, and ends once the file that its message names is there.
const GATED = `import { createConsumer } from 'nevertwice';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
export default createConsumer({
  name: 'gated',
  maxBatch: 1,
  handle: async ({ id, body }, { sql }) => {
    await sql\`SELECT 1\`;
    console.log('handling', id);
    while (!existsSync(body)) await sleep(5);
  },
});
`;
const message = (id: string, gate: string) => `${JSON.stringify({ id, body: gate })}\n`;
const STOPPING = 'stopping: running handlers have 10 s to finish; the same signal again ends at once\n';

describe('C111: a stop', () => {
  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s lets the running handler finish and starts no other', async (signal, code) => {
    const cwd = await folderWith({ 'a.ts': GATED, 'a.jsonl': message('m1', 'gate') + message('m2', 'a.ts') });
    const args = ['run', 'a.ts', '--input', 'a.jsonl', '--store', 'sqlite:x.db'];
    const { child, ended, output } = start(args, { cwd });
    await until('the handler has started', () => output.stderr.includes('handling m1'));
    child.kill(signal);
    await until('the stop is told', () => output.stderr.includes('stopping'));
    await folderFile(cwd, 'gate');
    expect(await ended).toMatchObject({ code, stdout: line(1, 0), stderr: `handling m1\n${STOPPING}` });
    // The next run goes on where this one stopped.
    expect(await nevertwice(args, { cwd })).toMatchObject({ code: 0, stdout: line(1, 0), stderr: 'handling m2\n' });
  });

  test('after ten seconds says what it abandons, and that comes again', async () => {
    const cwd = await folderWith({ 'a.ts': GATED, 'a.jsonl': message('m1', 'gate') });
    const args = ['run', 'a.ts', '--input', 'a.jsonl', '--store', 'sqlite:x.db'];
    const { child, ended, output } = start(args, { cwd });
    await until('the handler has started', () => output.stderr.includes('handling m1'));
    child.kill('SIGINT');
    const { code, stdout, stderr } = await ended;
    expect({ code, stdout }).toEqual({ code: 130, stdout: line(0, 0) });
    expect(stderr).toContain('abandoned 1 message (m1): rolled back and not acked, so they come again\n');
    await folderFile(cwd, 'gate');
    expect(await nevertwice(args, { cwd })).toMatchObject({ code: 0, stdout: line(1, 0) });
  }, 30_000);

  test('the same signal again ends at once', async () => {
    const cwd = await folderWith({ 'a.ts': GATED, 'a.jsonl': message('m1', 'gate') });
    const { child, ended, output } = start(['run', 'a.ts', '--input', 'a.jsonl', '--store', 'sqlite:x.db'], { cwd });
    await until('the handler has started', () => output.stderr.includes('handling m1'));
    const at = performance.now();
    // Until it counts: one that follows at once is taken for an echo of the first.
    await until('the process has ended', () => !child.kill('SIGTERM') || child.exitCode !== null);
    expect(await ended).toMatchObject({ code: 143, stdout: '', stderr: `handling m1\n${STOPPING}` });
    expect(performance.now() - at).toBeLessThan(9_000);
  });

  test('a signal that comes twice at once, as from npm on Ctrl-C, is one', async () => {
    const cwd = await folderWith({ 'a.ts': GATED, 'a.jsonl': message('m1', 'gate') });
    const { child, ended, output } = start(['run', 'a.ts', '--input', 'a.jsonl', '--store', 'sqlite:x.db'], { cwd });
    await until('the handler has started', () => output.stderr.includes('handling m1'));
    child.kill('SIGINT');
    await until('the stop is told', () => output.stderr.includes('stopping'));
    child.kill('SIGINT');
    await folderFile(cwd, 'gate');
    expect(await ended).toMatchObject({ code: 130, stdout: line(1, 0) });
  });

  test('while standard input is still open', async () => {
    const cwd = await folderWith({ 'a.ts': GATED });
    const { child, ended, output } = start(['run', 'a.ts', '--input', '-', '--store', 'sqlite:x.db'], {
      cwd,
      input: { open: true },
    });
    child.stdin?.write(message('m1', 'a.ts'));
    await until('the message was handled', () => output.stderr.includes('handling m1'));
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ code: 130 });
  });
});

async function folderFile(folder: string, name: string): Promise<void> {
  await writeFile(join(folder, name), '');
}
