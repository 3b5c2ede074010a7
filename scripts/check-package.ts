// `npm run check:package`: is what would be published fit to be installed? With `--update`, writes the API reports.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { type ApiReport, apiReports, compareReport, writeReport } from './api-report.ts';
import { type Packed, pack, readManifest } from './pack.ts';
import { type Check, mustRun, root, run, runChecks, type Tally, temporaryFolder, Wrong } from './run.ts';

/** The checks of the package, after it has been packed into `folder`. `onPacked` gets the result for later stages. */
export function packageChecks(folder: string, onPacked: (packed: Packed) => void = () => undefined): Check[] {
  let packed: Packed;
  const subpaths = Object.entries(readManifest(root).exports).filter(([, target]) => typeof target !== 'string');
  const entries = subpaths.map(([subpath]) => (subpath === '.' ? 'nevertwice' : `nevertwice/${subpath.slice(2)}`));
  return [
    {
      name: 'builds, packs and installs without a registry',
      gate: true,
      run: async () => {
        packed = await pack(folder);
        onPacked(packed);
        return `${kilobytes(packed.packedSize)} packed, ${kilobytes(packed.unpackedSize)} unpacked, ${packed.files.length} files`;
      },
    },
    { name: 'holds only what users need, and depends on nothing', run: async () => contents(packed) },
    { name: 'publint', run: () => lintPackage(packed) },
    { name: 'attw: every export has the types that its module format needs', run: () => typesOfExports(packed) },
    { name: 'types load in TypeScript 5.9', run: () => typesLoad(packed, 'typescript59/lib/tsc.js', entries) },
    { name: 'types load in TypeScript 7', run: () => typesLoad(packed, 'typescript/bin/tsc', entries) },
    ...entries.map(entry => ({ name: `import '${entry}' loads no client`, run: () => loadsNothing(packed, entry) })),
    { name: 'a CommonJS application requires it', run: () => commonJs(packed) },
    ...reports(() => packed, entries),
  ];
}

const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(0)} kB`;

async function contents(packed: Packed): Promise<undefined> {
  const expected = /^(dist\/.+\.(js|d\.ts|sql)|package\.json|README\.md|LICENSE|CHANGELOG\.md)$/;
  const wrong = packed.files.filter(file => !expected.test(file)).map(file => `should not be packed: ${file}`);
  for (const file of ['README.md', 'LICENSE', 'CHANGELOG.md']) {
    if (!packed.files.includes(file)) wrong.push(`is missing: ${file}`);
  }
  const manifest = JSON.parse(readFileSync(join(packed.installed, 'package.json'), 'utf8')) as Record<string, unknown>;
  for (const field of ['dependencies', 'optionalDependencies', 'bundleDependencies', 'bundledDependencies']) {
    if (manifest[field] !== undefined) wrong.push(`package.json has ${field}`);
  }
  const optional = (manifest.peerDependenciesMeta ?? {}) as Record<string, { optional?: boolean }>;
  for (const peer of Object.keys((manifest.peerDependencies as object | undefined) ?? {})) {
    if (optional[peer]?.optional !== true) wrong.push(`peer dependency ${peer} is not marked optional`);
  }
  for (const script of ['preinstall', 'install', 'postinstall']) {
    if (script in (manifest.scripts as object)) wrong.push(`package.json has an ${script} script, which runs at users`);
  }
  if (wrong.length > 0) throw new Wrong(wrong.join('\n'));
  return undefined;
}

async function lintPackage(packed: Packed): Promise<undefined> {
  // `pack: false` because the folder already holds what was published, and nothing else.
  const { messages, pkg } = await publint({ pkgDir: packed.installed, pack: false, strict: true });
  if (messages.length === 0) return undefined;
  throw new Wrong(
    messages.map(message => `${message.type}: ${formatMessage(message, pkg, { color: false })}`).join('\n'),
  );
}

async function typesOfExports(packed: Packed): Promise<undefined> {
  // Without --no-definitely-typed it asks a registry for @types/nevertwice.
  await mustRun('attw', [packed.tarball, '--profile', 'esm-only', '--no-definitely-typed', '--format', 'ascii']);
  return undefined;
}

/** Compiles an import of every entry, library check on: the declarations must stand on their own. */
async function typesLoad(packed: Packed, compiler: string, entries: readonly string[]): Promise<undefined> {
  const file = join(packed.app, 'types.ts');
  writeFileSync(file, entries.map((entry, i) => `export * as entry${i} from '${entry}';\n`).join(''));
  const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')];
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--lib', 'es2022', ...types];
  await mustRun('node', [join(root, 'node_modules', compiler), ...options, file], { cwd: packed.app });
  return undefined;
}

/** Records what an import resolves: everything must lie in the package itself or in Node.js. */
async function loadsNothing(packed: Packed, entry: string): Promise<undefined> {
  const probe = join(packed.app, 'probe.mjs');
  copyFileSync(join(root, 'scripts/fixtures/probe.mjs'), probe);
  const { code, stdout, output } = await run('node', [probe, entry], { cwd: packed.app });
  if (code !== 0) throw new Wrong(output);
  const foreign = (JSON.parse(stdout) as string[]).filter(url => !url.includes('/node_modules/nevertwice/'));
  if (foreign.length > 0) throw new Wrong(`it loads ${foreign.join(', ')}`);
  if (output !== stdout) throw new Wrong(`it prints to a user's terminal:\n${output.replace(stdout, '')}`);
  return undefined;
}

/** An application as NestJS compiles it: CommonJS, a class with life-cycle methods, `require`. */
async function commonJs(packed: Packed): Promise<undefined> {
  const folder = join(packed.app, 'commonjs');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }\n');
  copyFileSync(join(root, 'scripts/fixtures/nest-style.cjs'), join(folder, 'main.cjs'));
  const { stdout } = await mustRun('node', ['main.cjs'], { cwd: folder });
  if (stdout.trim() !== 'wallet a: 30') throw new Wrong(`expected "wallet a: 30", got:\n${stdout}`);
  return undefined;
}

function reports(packed: () => Packed, entries: readonly string[]): Check[] {
  let made: ApiReport[] | undefined;
  return entries.map((entry, index) => ({
    name: `the API of '${entry}' is the one in etc/`,
    run: async () => {
      made ??= apiReports(packed().installed);
      const report = made[index];
      if (report === undefined) throw new Error(`no report was made for ${entry}`);
      compareReport(report);
      return undefined;
    },
  }));
}

if (import.meta.main) {
  const folder = await temporaryFolder('package');
  if (process.argv.includes('--update')) {
    for (const report of apiReports((await pack(folder)).installed)) {
      writeReport(report);
      console.log(report.file);
    }
  } else {
    const tally: Tally = { passed: 0, failed: 0, skipped: 0, failures: [] };
    await runChecks('Package', packageChecks(folder), tally);
    process.exitCode = tally.failed > 0 ? 1 : 0;
  }
}
