import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import type { Outcome } from '../../src/index.ts';
import type { LeaseTarget } from './lease-targets.ts';

/** A process for each target, all on one store, each given `copies` of one message at the same time: one effect. */
export async function oneEffect(targets: readonly LeaseTarget[], copies: number, effects: string): Promise<void> {
  const program = fileURLToPath(new URL('lease-copies-worker.ts', import.meta.url));
  const children = targets.map(target => {
    const child = spawn(process.execPath, [program, JSON.stringify(target), effects, String(copies)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    return { child, ready: once(child.stdout, 'data'), exited: once(child, 'exit') };
  });
  await Promise.all(children.map(({ ready }) => ready));
  const printed = children.map(({ child }) => text(child.stdout));
  // All start at once, the opening of the store included.
  for (const { child } of children) child.stdin.end();
  const codes = await Promise.all(children.map(async ({ exited }) => (await exited)[0]));
  expect(codes).toEqual(children.map(() => 0));

  const outcomes = (await Promise.all(printed)).flatMap(lines => JSON.parse(lines) as Outcome<unknown>[]);
  expect(readFileSync(effects, 'utf8')).toBe('m1\n');
  expect(Object.groupBy(outcomes, ({ status }) => status)).toMatchObject({
    processed: { length: 1 },
    duplicate: { length: targets.length * copies - 1 },
  });
  expect(new Set(outcomes.map(outcome => JSON.stringify('result' in outcome && outcome.result)))).toHaveLength(1);
}
