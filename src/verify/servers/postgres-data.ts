import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { chmod, chown, mkdir, mkdtemp, readFile, rename, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

export interface PostgresData {
  readonly folder: string;
  readonly password: string;
  /** What it is a copy of; undefined for one that `initdb` made. */
  readonly template: string | undefined;
}

export interface PostgresDataOptions {
  /** The folder of the server's programs. */
  readonly bin: string;
  /** A folder of the server's own. */
  readonly inside: string;
  /** Who runs the server, when it is not us. */
  readonly owner: Owner | undefined;
  /** Takes a copy where there is one. Default true. */
  readonly copies?: boolean;
}

/**
 * The data folder of a new server. `initdb` takes one to two seconds, and comes to the same each time: what it made is kept in
 * the user's cache, and further servers get a copy of that, in a tenth of the time.
 */
export async function postgresData(options: PostgresDataOptions): Promise<PostgresData> {
  const { bin, inside, owner } = options;
  const folder = join(inside, 'data');
  const template = join(cacheFolder(), `postgres-${await fingerprint(bin)}`);
  if (options.copies !== false) {
    const password = await copied(template, folder, owner);
    if (password !== undefined) return { folder, password, template };
  }
  const password = randomBytes(12).toString('hex');
  const passwordFile = join(inside, 'password');
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  if (owner !== undefined) for (const path of [inside, passwordFile]) await chown(path, owner.uid, owner.gid);
  const flags = ['-D', folder, '-U', 'postgres', '--auth=password', `--pwfile=${passwordFile}`, '--encoding=UTF8'];
  await run(join(bin, 'initdb'), [...flags, '--locale=C', '--no-sync'], {
    ...owner,
    cwd: inside,
    env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' },
  });
  // Where nothing can be kept, the next one is made anew.
  await keep(folder, password, template).catch(() => undefined);
  return { folder, password, template: undefined };
}

/** Deletes a template whose copy does not start. */
export async function forget(template: string): Promise<void> {
  await rm(template, { recursive: true, force: true });
}

function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'nevertwice');
}

/** Another build of the server makes another data folder. */
async function fingerprint(bin: string): Promise<string> {
  const path = join(bin, 'postgres');
  const { mtimeMs, size } = await stat(path);
  return createHash('sha256')
    .update(JSON.stringify([path, mtimeMs, size]))
    .digest('hex')
    .slice(0, 16);
}

async function copied(template: string, folder: string, owner: Owner | undefined): Promise<string | undefined> {
  try {
    const password = (await readFile(join(template, 'password'), 'utf8')).trim();
    await run('cp', ['-R', join(template, 'data'), folder]);
    await chmod(folder, 0o700);
    if (owner !== undefined) await run('chown', ['-R', `${owner.uid}:${owner.gid}`, join(folder, '..')]);
    return password;
  } catch {
    await rm(folder, { recursive: true, force: true });
    return undefined;
  }
}

/** Others may be doing the same: the first one stays. */
async function keep(folder: string, password: string, template: string): Promise<void> {
  await mkdir(cacheFolder(), { recursive: true, mode: 0o700 });
  const made = await mkdtemp(`${template}.`);
  try {
    await run('cp', ['-R', folder, join(made, 'data')]);
    await writeFile(join(made, 'password'), password, { mode: 0o600 });
    await rename(made, template);
  } catch (error) {
    await rm(made, { recursive: true, force: true });
    throw error;
  }
}

/** Room for a server that is full of tests' data. */
const ROOM_BYTES = 2 ** 30;

/** A folder in memory, where there is one with enough room: for data that need not outlive anything. */
export async function memoryFolder(): Promise<string | undefined> {
  const folder = '/dev/shm';
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize > ROOM_BYTES ? folder : undefined;
  } catch {
    return undefined;
  }
}
