import { type ChildProcess, fork } from 'node:child_process';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Source } from '../../ports/source.ts';
import { serve, type Traffic } from './bridge/broker-side.ts';
import type { FromBroker } from './bridge/wire.ts';
import type { Fuse } from './schedule.ts';

// Its own ending, since it may be built or as it was written.
const PROGRAM = fileURLToPath(new URL(`service-process${extname(import.meta.url)}`, import.meta.url));

export interface WorkerOptions {
  readonly service: string;
  readonly file: string;
  readonly fuse: Fuse | undefined;
  readonly source: Source;
  readonly traffic: Traffic;
  /** Where Node.js keeps compiled code between starts. */
  readonly cache: string;
  /** Kills it when it aborts. */
  readonly signal: AbortSignal;
}

/** One process of a service. */
export interface Worker {
  /** Resolves when it was killed, or has ended by itself without an error; rejects when it has failed. */
  readonly ended: Promise<'killed' | 'done'>;
  kill(): void;
  /** Tells it that everything is done. */
  stop(): void;
}

export function startWorker({ service, file, fuse, source, traffic, cache, signal }: WorkerOptions): Worker {
  const child = fork(PROGRAM, [service, file, ...(fuse === undefined ? [] : [JSON.stringify(fuse)])], {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    // Out of reach of a Ctrl-C in the terminal: what ends a worker is the fuse, or this process.
    detached: true,
    windowsHide: true,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    env: { ...process.env, NODE_COMPILE_CACHE: cache },
  });
  serve(child, source, traffic);
  const kill = () => void child.kill('SIGKILL');
  signal.addEventListener('abort', kill, { once: true });
  const ended = outcome(service, child).finally(() => signal.removeEventListener('abort', kill));
  return {
    ended,
    kill,
    stop: () => child.send({ op: 'stop' } satisfies FromBroker, () => undefined),
  };
}

function outcome(service: string, child: ChildProcess): Promise<'killed' | 'done'> {
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4_000);
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (signal === 'SIGKILL') resolve('killed');
      else if (code === 0) resolve('done');
      else reject(new Error(`the process of ${service} ended with ${code ?? signal}: ${said.trim()}`));
    });
  });
}
