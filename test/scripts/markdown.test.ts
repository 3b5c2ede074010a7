import { expect, test } from 'vitest';
import { blocksOf, matchesOutput, moduleOf } from '../../scripts/markdown.ts';

const page = `# Title

<!-- given
declare const pool: unknown;
-->
\`\`\`ts run
const a = 1;
\`\`\`

\`\`\`text
1
\`\`\`

Words.

1. In a list:

   \`\`\`ts continue
   console.log(a);
   \`\`\`
`;

test('a block knows its line, its marks and the output below it', () => {
  const [first, output, second] = blocksOf('a.md', page);
  expect(first).toMatchObject({ line: 7, words: ['ts', 'run'], lines: ['const a = 1;'] });
  expect(first?.next).toBe(output);
  expect(output?.next).toBeUndefined();
  expect(second).toMatchObject({ line: 19, words: ['ts', 'continue'], lines: ['console.log(a);'] });
});

test('code keeps its line numbers, after what was given and what it continues', () => {
  const blocks = blocksOf('a.md', page);
  const lines = moduleOf(blocks[2]!, blocks).split('\n');
  expect([lines[3], lines[6], lines[18]]).toEqual(['declare const pool: unknown;', 'const a = 1;', 'console.log(a);']);
  expect(moduleOf(blocks[0]!, blocks)).not.toContain('console.log');
});

test('a block that is never closed is an error with its place', () => {
  expect(() => blocksOf('a.md', 'x\n```ts\nlet a;\n')).toThrow('a.md:2');
});

test.for([
  ['one\n', ['one'], true],
  ['one\ntwo\n', ['one'], false],
  ['one (3 ms)\n', ['one (… ms)'], true],
  ['one\ntwo\nthree\n', ['one', '…'], true],
  ['one\ntwo\nthree\n', ['…', 'three'], true],
  ['one\nthree\n', ['one', '…', 'three'], true],
  ['one\ntwo\n', ['…', 'three'], false],
  ['a.b\n', ['a.b'], true],
  ['axb\n', ['a.b'], false],
] as const)('output %j against %j is %s', ([actual, expected, verdict]) => {
  expect(matchesOutput(actual, expected)).toBe(verdict);
});
