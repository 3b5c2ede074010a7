import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const pages = ['README.md', ...readdirSync(join(root, 'docs')).filter(name => name.endsWith('.md'))].map(name =>
  name === 'README.md' ? name : `docs/${name}`,
);

test.each(pages)('every test and source file that %s names is there', page => {
  const text = readFileSync(join(root, page), 'utf8');
  const named = [...text.matchAll(/`((?:test|src|bench|scripts)\/[\w./*-]+)`/g)].map(([, path]) => path!);
  expect([...new Set(named)].filter(path => globSync(path, { cwd: root }).length === 0)).toEqual([]);
});
