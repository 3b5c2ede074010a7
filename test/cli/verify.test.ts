import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folderWith, nevertwice } from './program.ts';

const HANDLER = `
import { DatabaseSync } from 'node:sqlite';
const database = new DatabaseSync(process.env.FILE ?? ':memory:', { timeout: 5_000 });
export function onPay({ account, amount }) {
  if (process.env.KEY !== 'sk_live_1') throw new Error('no key');
  database.prepare('UPDATE wallet SET balance = balance + ? WHERE id = ?').run(amount, account);
}
`;

test('a handler that says nothing of itself is verified by flags, and the line that plays it again does', async () => {
  const folder = await folderWith({
    'pay.mjs': HANDLER,
    'm.json': JSON.stringify({ id: 'm1', account: 'alice', amount: 5 }),
    'schema.sql': 'CREATE TABLE wallet (id text PRIMARY KEY, balance int NOT NULL);',
  });
  const handler = `${join(folder, 'pay.mjs')}#onPay`;
  const flags = [
    ...['--message', join(folder, 'm.json'), '--schema', join(folder, 'schema.sql')],
    ...['--seed', "INSERT INTO wallet VALUES ('alice', 100)", '--env', 'FILE=sqlite', '--env', 'KEY=sk_live_1'],
    ...['--bound', '1'],
  ];
  const { code, stdout, stderr } = await nevertwice(['verify', handler, ...flags, '--json']);
  expect({ code, stderr }).toEqual({ code: 1, stderr: '' });
  const [conviction] = (JSON.parse(stdout) as { convictions: { verdict: string; replay: string; token: string }[] })
    .convictions;
  expect(conviction!.verdict).toBe('double');
  // As it was typed, but for the secret and for how the report is shown.
  expect(stdout).not.toContain('sk_live_1');
  expect(conviction!.replay).toBe(
    `npx nevertwice verify ${handler} --message ${join(folder, 'm.json')} --schema ${join(folder, 'schema.sql')} ` +
      `--seed 'INSERT INTO wallet VALUES ('\\''alice'\\'', 100)' --env FILE=sqlite --env 'KEY=…' --bound 1 --replay ${conviction!.token}`,
  );
  const again = await nevertwice(['verify', handler, ...flags, '--replay', conviction!.token]);
  expect(again.code).toBe(1);
  expect(again.stdout).toMatch(/^✖ double: found after 1 execution/);
}, 60_000);
