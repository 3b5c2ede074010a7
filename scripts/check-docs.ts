// `npm run check:docs`: does everything that README.md, docs/ and examples/ show compile, run and print what they say?
// CONTRIBUTING.md, "Documentation", says how blocks are marked.
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Block, blocksOf, matchesOutput, moduleOf } from './markdown.ts';
import { type Packed, pack } from './pack.ts';
import { type Check, root, run, runChecks, type Tally, temporaryFolder, Wrong } from './run.ts';

const RUN_WITHIN_MS = 60_000;

interface Snippet {
  readonly block: Block;
  /** Name of its module in the checking folder. */
  readonly file: string;
}

/** The checks of all pages against the packed package. Prepares a folder inside the repository, for its devDependencies. */
export async function docsChecks(packed: Packed): Promise<Check[]> {
  const names = globSync(['README.md', 'docs/**/*.md', 'examples/**/*.md'], { cwd: root }).sort();
  const pages = names.map(name => blocksOf(name, readFileSync(join(root, name), 'utf8')));
  mkdirSync(join(root, '.cache'), { recursive: true });
  const folder = await temporaryFolder('docs', join(root, '.cache'));
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
  cpSync(join(packed.app, 'node_modules'), join(folder, 'node_modules'), { recursive: true, verbatimSymlinks: true });

  const snippets = pages.flatMap(page =>
    page.filter(block => block.words[0] === 'ts').map(block => writeModule(folder, block, page)),
  );
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
  return [
    { name: 'every block of code is marked so that it is checked', run: async () => marked(pages.flat()) },
    { name: 'snippets compile in TypeScript 5.9', run: () => compile(folder, 'typescript59/lib/tsc.js', snippets) },
    { name: 'snippets compile in TypeScript 7', run: () => compile(folder, 'typescript/bin/tsc', snippets) },
    ...snippets
      .filter(({ block }) => block.words.includes('run'))
      .map(({ block, file }) => ({ name: `${where(block)} runs`, run: () => runModule(folder, block, file) })),
    ...pages.flatMap(page => shellChecks(folder, page)),
  ];
}

const tsconfig = {
  compilerOptions: {
    target: 'es2022',
    lib: ['es2024', 'esnext.disposable'],
    module: 'nodenext',
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: ['node'],
  },
  include: ['*.ts'],
};

const where = (block: Block): string => `${block.page}:${block.line}`;

function writeModule(folder: string, block: Block, page: readonly Block[]): Snippet {
  const file = `${block.page.replace(/\.md$/, '').replaceAll(/[\\/]/g, '-')}.${block.line}.ts`;
  writeFileSync(join(folder, file), moduleOf(block, page));
  return { block, file };
}

function marked(blocks: readonly Block[]): undefined {
  const unchecked = blocks.filter(({ words: [language = ''] }) =>
    /^(typescript|tsx|js|javascript|mjs)$/.test(language),
  );
  if (unchecked.length > 0) throw new Wrong(unchecked.map(block => `${where(block)} mark it \`ts\``).join('\n'));
  if (!blocks.some(({ words: [language] }) => language === 'ts')) throw new Wrong('no page shows any TypeScript');
  return undefined;
}

async function compile(folder: string, compiler: string, snippets: readonly Snippet[]): Promise<string> {
  const program = join(root, 'node_modules', compiler);
  const { code, output } = await run('node', [program, '-p', folder, '--pretty', 'false'], { cwd: folder });
  if (code === 0) return `${snippets.length}`;
  const pages = new Map(snippets.map(({ file, block }) => [file, block.page]));
  throw new Wrong(
    output.replaceAll(/^([^\s(]+\.ts)\((\d+),(\d+)\)/gm, (all, file: string, line: string, column: string) => {
      const page = pages.get(file);
      return page === undefined ? all : `${page}:${line}:${column}`;
    }),
  );
}

async function runModule(folder: string, block: Block, file: string): Promise<undefined> {
  const cwd = await temporaryFolder('run', folder);
  checkOutput(block, await run('node', [join(folder, file)], { cwd, timeout: RUN_WITHIN_MS }));
}

/** Blocks of one page marked `sh run` are one session: they run in order in one folder that has a copy of examples/. */
function shellChecks(folder: string, page: readonly Block[]): Check[] {
  let session: Promise<string> | undefined;
  return page
    .filter(({ words }) => words[0] === 'sh' && words.includes('run'))
    .map(block => ({
      name: `${where(block)} runs`,
      run: async () => {
        session ??= sessionFolder(folder);
        const env = { PATH: `${join(folder, 'node_modules/.bin')}${delimiter}${process.env.PATH}` };
        const options = { cwd: await session, env, timeout: RUN_WITHIN_MS };
        checkOutput(block, await run('sh', ['-euc', block.lines.join('\n')], options));
        return undefined;
      },
    }));
}

async function sessionFolder(folder: string): Promise<string> {
  const session = await temporaryFolder('session', folder);
  const examples = join(root, 'examples');
  if (existsSync(examples)) cpSync(examples, join(session, 'examples'), { recursive: true });
  return session;
}

function checkOutput(block: Block, finished: { code: number; output: string; stdout: string }): undefined {
  if (finished.code !== 0) throw new Wrong(`it ended with ${finished.code}:\n${finished.output}`);
  const expected = block.next?.words[0] === 'text' ? block.next.lines : undefined;
  if (expected === undefined || matchesOutput(finished.stdout, expected)) return undefined;
  throw new Wrong(`${where(block)} prints\n${finished.stdout}\nand the page says\n${expected.join('\n')}`);
}

if (import.meta.main) {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0, failures: [] };
  let packed: Packed | undefined;
  const build = async (): Promise<undefined> => {
    packed = await pack(await temporaryFolder('package'));
  };
  await runChecks('Package', [{ name: 'builds, packs and installs', run: build }], tally);
  if (packed !== undefined) await runChecks('Documentation', await docsChecks(packed), tally);
  process.exitCode = tally.failed > 0 ? 1 : 0;
}
