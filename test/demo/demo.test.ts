import { readdir } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { demoOf } from '../../src/cli/commands/demo.ts';
import { CONTESTANTS, type Contestant } from '../../src/cli/demo/judge.ts';
import { EXIT } from '../../src/cli/exit-codes.ts';
import { Output } from '../../src/cli/output.ts';
import { folderWith, nevertwice, start } from '../cli/program.ts';
import { SEED } from '../support/random.ts';
import { until } from '../support/until.ts';

interface Result {
  readonly seed: number;
  readonly kills: number;
  readonly payments: number;
  readonly consumers: readonly Readonly<Record<string, unknown>>[];
  readonly proved: boolean;
}

test(`only nevertwice is right to the cent (seed ${SEED})`, async () => {
  const { code, stdout, stderr } = await nevertwice(['demo', '--seed', String(SEED), '--kills', '5']);
  expect({
    code,
    stderr: stderr
      .replaceAll(/\d+ deliveries/g, 'n deliveries')
      .split('\n')
      .sort(),
  }).toEqual({
    code: 0,
    stderr: ['', ...CONTESTANTS.map(({ service }) => `${service}: killed 5 times, n deliveries`)].sort(),
  });
  expect(stdout).toContain(`nevertwice demo --seed ${SEED} --kills 5 plays the same faults again`);
  const table = stdout.split('\n').filter(row => /WRONG|right to the cent|verdict/.test(row));
  const cells = table.map(row => row.trim().split(/ {2,}/));
  expect(cells[0]).toEqual(['consumer', 'expected', 'actual', 'doubled', 'lost', 'verdict']);
  const [naive, checkThenAct, markFirst, own] = cells.slice(1) as [string[], string[], string[], string[]];
  for (const row of [naive, checkThenAct]) {
    expect(Number(row[3])).toBeGreaterThan(0);
    expect(row[4]).toBe('0');
  }
  expect(markFirst[3]).toBe('0');
  expect(Number(markFirst[4])).toBeGreaterThan(0);
  expect([naive, checkThenAct, markFirst].map(row => [row[0], row[5]])).toEqual([
    ['naive', 'WRONG'],
    ['check-then-act', 'WRONG'],
    ['mark-first', 'WRONG'],
  ]);
  expect(own).toEqual(['nevertwice', own[1], own[1], '0', '0', 'right to the cent']);
  const [, why] = stdout.split('nevertwice verify on the same handlers');
  expect(why!.match(/^ {2}\S+ +(?:double|lost), after \d+ executions: /gm)).toHaveLength(3);
}, 120_000);

test('with the fewest kills it proves as much, and --json is the result alone', async () => {
  const { code, stdout, stderr } = await nevertwice(['demo', '--seed', '3', '--kills', '2', '--json']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const result = JSON.parse(stdout) as Result;
  expect(result).toMatchObject({ seed: 3, kills: 2, payments: 48, proved: true });
  expect(result.consumers.map(({ consumer, verdict, kills }) => [consumer, verdict, kills])).toEqual([
    ['naive', 'wrong', 2],
    ['check-then-act', 'wrong', 2],
    ['mark-first', 'wrong', 2],
    ['nevertwice', 'right', 2],
  ]);
  expect(result.consumers.map(({ verify }) => verify)).toEqual([
    { verdict: 'double', executions: expect.any(Number), because: expect.stringContaining('once for each delivery') },
    { verdict: 'double', executions: expect.any(Number), because: expect.stringContaining('INSERT INTO credits') },
    {
      verdict: 'lost',
      executions: expect.any(Number),
      because: expect.stringContaining('committed before the effect'),
    },
    null,
  ]);
}, 120_000);

describe('a demo that does not prove what it should fails', () => {
  class Silent extends Output {
    text = '';
    override result(text: string): void {
      this.text += text;
    }
    override note(): void {}
  }

  // Whoever is to be right stands in for a nevertwice that has lost its deduplication.
  test.each<[string, Contestant]>([
    ['its nevertwice doubles', { service: 'check-then-act', how: '', mustBeRight: true }],
    ['its nevertwice loses', { service: 'mark-first', how: '', mustBeRight: true }],
    ['a broken one comes out right', { service: 'nevertwice', how: '', mustBeRight: false }],
  ])(
    'when %s',
    async (_, contestant) => {
      const output = new Silent();
      const code = await demoOf([contestant]).run(['--seed', '3', '--kills', '2', '--json'], output);
      expect(code).toBe(EXIT.unproven);
      expect((JSON.parse(output.text) as Result).proved).toBe(false);
    },
    60_000,
  );

  test('and says what to do', async () => {
    const output = new Silent();
    await demoOf([
      { service: 'naive', how: 'credits whatever is delivered', mustBeRight: true },
      { service: 'nevertwice', how: 'claims the id', mustBeRight: false },
    ]).run(['--seed', '3', '--kills', '2'], output);
    expect(output.text).toContain('naive is off: that is a bug. Please report it with the seed 3.');
    expect(output.text).toContain('nevertwice came out right, so this run proved nothing; try more --kills.');
  }, 60_000);
});

test('ended by a signal it leaves no process and no file behind', async () => {
  const temporary = await folderWith();
  const { child, ended } = start(['demo', '--kills', '100'], { env: { TMPDIR: temporary } });
  await until(
    'its services have their databases',
    async () => {
      const [folder] = await readdir(temporary);
      return folder !== undefined && (await readdir(`${temporary}/${folder}`)).some(name => name.endsWith('-wal'));
    },
    30_000,
  );
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 143, stderr: 'error: stopped by SIGTERM\n' });
  expect(await readdir(temporary)).toEqual([]);
}, 60_000);
