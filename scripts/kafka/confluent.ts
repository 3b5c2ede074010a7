// Fetches and builds @confluentinc/kafka-javascript for this Node.js into `.cache`, once: `node scripts/kafka/confluent.ts`.
// Not a dependency of this project, because it needs a compiler or a download from GitHub, and only some tests want it.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

export const CONFLUENT_VERSION = '1.10.1';
const NODE_GYP_VERSION = '13.1.0';
const PREBUILT_WITHIN_MS = 30_000;

const cache = fileURLToPath(new URL('../../.cache', import.meta.url));
/** The folder in which it is installed: what is built for one version of Node.js does not load in another. */
export const CONFLUENT_FOLDER = join(cache, `confluent-${CONFLUENT_VERSION}-node-${process.versions.modules}`);

if (import.meta.main) {
  try {
    await build();
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string };
    console.error(`confluent could not be built: ${`${stdout}${stderr}`.trim().slice(-4_000) || message}`);
    process.exitCode = 1;
  }
}

async function build(): Promise<void> {
  if (await exists(CONFLUENT_FOLDER)) return;
  await mkdir(cache, { recursive: true });
  // Into a folder of its own and then renamed: half a build is never taken for all of it.
  const partial = await mkdtemp(join(cache, 'confluent-'));
  try {
    await writeFile(join(partial, 'package.json'), JSON.stringify({ private: true }));
    await npm(partial, `@confluentinc/kafka-javascript@${CONFLUENT_VERSION}`, `node-gyp@${NODE_GYP_VERSION}`);
    const client = join(partial, 'node_modules/@confluentinc/kafka-javascript');
    if (!(await prebuilt(client))) await compiled(partial, client);
    await run(process.execPath, ['-e', "require('@confluentinc/kafka-javascript')"], { cwd: partial });
    await rename(partial, CONFLUENT_FOLDER);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    // Another process may have been faster.
    if (!(await exists(CONFLUENT_FOLDER))) throw error;
  }
}

async function npm(folder: string, ...packages: string[]): Promise<void> {
  await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--no-save', ...packages], {
    cwd: folder,
  });
}

/** False where the file of the project's releases cannot be had. */
async function prebuilt(client: string): Promise<boolean> {
  const program = join(client, '../../@mapbox/node-pre-gyp/bin/node-pre-gyp');
  return run(process.execPath, [program, 'install'], { cwd: client, timeout: PREBUILT_WITHIN_MS }).then(
    () => true,
    () => false,
  );
}

async function compiled(folder: string, client: string): Promise<void> {
  const program = join(folder, 'node_modules/node-gyp/bin/node-gyp.js');
  const headers = await headersOf();
  try {
    await run(process.execPath, [program, 'rebuild', ...(headers === undefined ? [] : [`--nodedir=${headers}`])], {
      cwd: client,
      // The library beside it, and not a link with those of this machine.
      env: { ...process.env, CKJS_LINKING: 'dynamic' },
      maxBuffer: 64 * 1024 * 1024,
    });
  } finally {
    if (headers !== undefined) await rm(headers, { recursive: true, force: true });
  }
  // Ten times as large as what is left.
  await rm(join(client, 'deps'), { recursive: true, force: true });
}

/** The headers of this Node.js from the npm package with its program; undefined where node-gyp is to fetch them. */
async function headersOf(): Promise<string | undefined> {
  if (process.platform !== 'linux') return undefined;
  const folder = await mkdtemp(join(cache, 'node-headers-'));
  const name = `node-linux-${process.arch}`;
  await run('npm', ['pack', '--silent', `${name}@${process.versions.node}`], { cwd: folder });
  await run('tar', ['xzf', `${name}-${process.versions.node}.tgz`, '--strip-components=1', 'package/include'], {
    cwd: folder,
  });
  await rm(join(folder, `${name}-${process.versions.node}.tgz`));
  return folder;
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
