import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { temporaryFile } from './sqlite-clients.ts';

const PROCESSES = 2;
const MESSAGES = 200;
const SHARED = 40;

test(`C09: ${PROCESSES} processes with ${MESSAGES} messages each on one file, 20 % shared: every id once, no failure`, async () => {
  const { path, remove } = temporaryFile();
  const program = fileURLToPath(new URL('sqlite-consumer.ts', import.meta.url));
  const children = Array.from({ length: PROCESSES }, (_, n) => {
    const child = spawn(process.execPath, [program, path, String(n), String(MESSAGES), String(SHARED)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    return { child, ready: once(child.stdout, 'data'), exited: once(child, 'exit') };
  });
  await Promise.all(children.map(({ ready }) => ready));
  // All start at once, tables included.
  for (const { child } of children) child.stdin.end();
  const codes = await Promise.all(children.map(async ({ exited }) => (await exited)[0]));
  expect(codes).toEqual([0, 0]);

  const database = new DatabaseSync(path);
  const rows = database.prepare('SELECT id, count(*) AS times, sum(amount) AS amount FROM effects GROUP BY id').all();
  expect(rows.filter(row => row.times !== 1)).toEqual([]);
  expect(rows).toHaveLength(PROCESSES * (MESSAGES - SHARED) + SHARED);
  const workers = database.prepare('SELECT DISTINCT worker FROM effects').all();
  expect(workers).toHaveLength(PROCESSES);
  expect(database.prepare('SELECT count(*) AS n FROM nevertwice_inbox').get()).toEqual({ n: rows.length });
  database.close();
  remove();
});
