import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const page = readFileSync(join(root, 'docs/failures.md'), 'utf8');
const documented = [...page.matchAll(/^\| (C\d+) \|/gm)].map(([, id]) => id!);

/** Ids in the titles of all tests, and of the conformance suites that they run. */
function tested(): ReadonlySet<string> {
  const files = ['test', 'src/conformance'].flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(file => join(root, folder, file)),
  );
  // String literals only: a comment that mentions a failure is no test of it.
  const literals = files
    .filter(file => file.endsWith('.ts'))
    .flatMap(
      file =>
        readFileSync(file, 'utf8')
          .replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, '')
          .match(/(['"`])(?:(?!\1).)*\bC\d{2,3}\b(?:(?!\1).)*\1/g) ?? [],
    );
  return new Set(literals.flatMap(literal => literal.match(/\bC\d{2,3}\b/g) ?? []));
}

test('every failure on the page has a test that names it', () => {
  const names = tested();
  expect(documented.filter(id => !names.has(id))).toEqual([]);
});

test('every failure that a test names stands on the page, once', () => {
  expect([...tested()].filter(id => !documented.includes(id)).sort()).toEqual([]);
  expect(documented.length).toBe(new Set(documented).size);
});
