import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { Outcome } from '../../src/index.ts';
import { temporaryPath } from './local-support.ts';

const PROCESSES = 5;
const COPIES = 20;

test(`C84: ${PROCESSES * COPIES} copies of one message at once in ${PROCESSES} processes on one file: one effect, and all get its result`, async () => {
  const { path, remove } = temporaryPath();
  const effects = `${path}.effects`;
  const program = fileURLToPath(new URL('local-consumer.ts', import.meta.url));
  const children = Array.from({ length: PROCESSES }, () => {
    const child = spawn(process.execPath, [program, path, effects, String(COPIES)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    return { child, ready: once(child.stdout, 'data'), exited: once(child, 'exit') };
  });
  await Promise.all(children.map(({ ready }) => ready));
  const printed = children.map(({ child }) => text(child.stdout));
  // All start at once, the file included.
  for (const { child } of children) child.stdin.end();
  const codes = await Promise.all(children.map(async ({ exited }) => (await exited)[0]));
  expect(codes).toEqual(children.map(() => 0));

  const outcomes = (await Promise.all(printed)).flatMap(lines => JSON.parse(lines) as Outcome<unknown>[]);
  expect(readFileSync(effects, 'utf8')).toBe('m1\n');
  expect(Object.groupBy(outcomes, ({ status }) => status)).toMatchObject({
    processed: { length: 1 },
    duplicate: { length: PROCESSES * COPIES - 1 },
  });
  expect(new Set(outcomes.map(outcome => JSON.stringify('result' in outcome && outcome.result)))).toHaveLength(1);
  remove();
});
