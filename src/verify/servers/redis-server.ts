import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from './free-port.ts';
import { guard } from './guard.ts';

const run = promisify(execFile);

/** A private Redis on the loopback that keeps nothing on disk: a server that was killed comes back empty. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** Starts the server again after `kill`; resolves when it answers. */
  start(): Promise<void>;
  /** Ends the server without a goodbye. */
  kill(): Promise<void>;
  /** Ends the server and deletes its folder. */
  stop(): Promise<void>;
}

export interface RedisServerOptions {
  /** Lines of `redis.conf`, as `{ maxclients: 10 }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

const START_WITHIN_MS = 20_000;
const POLL_MS = 10;

/** Undefined when `redis-server` is installed, or else why the suites are left out. */
export async function redisMissing(): Promise<string | undefined> {
  const found = await run('redis-server', ['--version']).catch(() => undefined);
  return found === undefined
    ? 'there is no redis-server: install it, or set NEVERTWICE_TEST_REDIS to the URL of a server'
    : undefined;
}

/** Makes and starts a server. Whatever happens to this process, the server ends and its folder is deleted. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-redis-'));
  const watch = guard();
  watch.folder(folder);
  // Low enough for the bus of a cluster, whose port is 10,000 above.
  const port = await freePort(22_000);
  const settings = { port, bind: '127.0.0.1', save: '', appendonly: 'no', dir: folder, ...options.settings };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  let server: ChildProcess | undefined;

  async function start(): Promise<void> {
    if (server !== undefined) throw new Error('the server is already running');
    const child = spawn('redis-server', args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
    if (child.pid !== undefined) watch.started(child.pid, 'SIGKILL');
    let log = '';
    child.on('error', error => {
      log += error.message;
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        log = (log + chunk).slice(-4_000);
      });
    }
    server = child;
    const deadline = Date.now() + START_WITHIN_MS;
    while (!(await answers(port))) {
      if (child.exitCode === null && child.pid !== undefined && Date.now() < deadline) await sleep(POLL_MS);
      else throw new Error(`Redis did not start: ${log.trim()}`);
    }
  }

  async function kill(): Promise<void> {
    const child = server;
    server = undefined;
    if (child?.pid === undefined) return;
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    }
    watch.ended(child.pid);
  }

  async function stop(): Promise<void> {
    await kill();
    await rm(folder, { recursive: true, force: true });
  }

  try {
    await start();
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: `redis://127.0.0.1:${port}`, port, start, kill, stop };
}

/** True once the server answers a PING, whatever it says. */
async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    socket.write('PING\r\n');
    await once(socket, 'data');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
