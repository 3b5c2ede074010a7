import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript59';
import { expect, onTestFinished, test } from 'vitest';
import { floatingPromises } from '../../scripts/check-promises.ts';
import { root } from '../../scripts/run.ts';

// Each line says whether it drops a promise.
const code = `
import { rm } from 'node:fs/promises';
import { Pool } from 'pg';
const pool = new Pool();
const inferred = () => pool.query('select 1');
let kept: unknown;
rm('x'); // dropped
pool.query('select 1'); // dropped
inferred(); // dropped
Math.random() > 1 ? inferred() : undefined; // dropped
Math.random() > 1 && inferred(); // dropped
[1].map(() => inferred()); // dropped
(async () => 1)(); // dropped
inferred().then(() => 1); // dropped
inferred().finally(() => 1); // dropped
await inferred();
void inferred();
kept = inferred();
inferred().catch(() => 1);
inferred().then(() => 1, () => 2);
console.log(kept);
`;

test('finds every promise that is dropped, also those of packages and of Node.js, and no other', () => {
  mkdirSync(join(root, '.cache'), { recursive: true });
  const folder = mkdtempSync(join(root, '.cache/promises-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'bad.ts');
  writeFileSync(file, code);
  const program = ts.createProgram([file], {
    strict: true,
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    types: ['node'],
  });
  const expected = code.split('\n').flatMap((line, i) => (line.endsWith('// dropped') ? [i + 1] : []));
  expect(floatingPromises(program).map(found => Number(found.split(':')[1]))).toEqual(expected);
});
