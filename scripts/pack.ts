import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mustRun, root } from './run.ts';

/** The package as it would be published, installed in a folder of its own. */
export interface Packed {
  readonly tarball: string;
  /** A folder with nothing but `node_modules/nevertwice`, and its `node_modules/.bin/nevertwice`. */
  readonly app: string;
  /** `<app>/node_modules/nevertwice`. */
  readonly installed: string;
  /** Bytes. */
  readonly packedSize: number;
  readonly unpackedSize: number;
  readonly files: readonly string[];
}

/** package.json, as far as the checks read it. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly files: readonly string[];
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>;
  readonly bin: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

export function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
}

/**
 * Builds, packs and installs the package below `folder`, which must be empty. Builds into a copy and not into `dist`, so
 * that it can run beside a build, and installs offline: a package without dependencies needs no registry.
 */
export async function pack(folder: string): Promise<Packed> {
  const stage = join(folder, 'stage');
  mkdirSync(stage);
  const listed = readManifest(root).files.filter(name => !name.startsWith('!') && name !== 'dist');
  for (const name of ['package.json', 'README.md', 'LICENSE', ...listed]) {
    if (existsSync(join(root, name))) cpSync(join(root, name), join(stage, name), { recursive: true });
  }
  await mustRun('tsc', ['-p', 'tsconfig.build.json', '--outDir', join(stage, 'dist')]);
  const packing = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
  const { stdout } = await mustRun('npm', packing, { cwd: stage });
  // npm 11 and older print an array, newer ones an object by package name.
  const [made] = Object.values(JSON.parse(stdout) as Record<string, PackResult>);
  if (made === undefined) throw new Error(`npm pack printed no package: ${stdout}`);
  const tarball = join(folder, made.filename);

  const app = join(folder, 'app');
  mkdirSync(app);
  writeFileSync(join(app, 'package.json'), '{ "private": true, "type": "module" }\n');
  await mustRun('npm', ['install', '--offline', '--no-audit', '--no-fund', '--ignore-scripts', tarball], { cwd: app });
  return {
    tarball,
    app,
    installed: join(app, 'node_modules', 'nevertwice'),
    packedSize: made.size,
    unpackedSize: made.unpackedSize,
    files: made.files.map(file => file.path),
  };
}

interface PackResult {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}
