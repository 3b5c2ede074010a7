import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export type ToMember = 'begin' | 'leave';
export type FromMember = { readonly lanes: number } | { readonly settled: number } | { readonly peakMb: number };

export interface Members {
  /** Of all processes together. */
  lanes(): number;
  /** Rejects when a process ends before it was told to. */
  readonly failed: Promise<never>;
  /** From now on, records are handled; before, at most what a client reads ahead has been read. */
  begin(): void;
  /** Resolves when so many records are settled, in all processes together, since the beginning. */
  settled(records: number): Promise<void>;
  /** Resolves with the peak memory of the largest, in MB, when all have left. */
  leave(): Promise<number>;
  /** Ends them as they are. */
  kill(): void;
}

const CHILD = fileURLToPath(new URL('scale-child.ts', import.meta.url));

/** Processes that are members of one group. */
export function startMembers(processes: number, args: readonly string[], cache: string): Members {
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => undefined);
  const lanes = new Array<number>(processes).fill(0);
  const peaks: number[] = [];
  let settled = 0;
  let wanted: { readonly records: number; readonly reached: () => void } | undefined;
  let leaving = false;
  const hear = (member: number, message: FromMember) => {
    if ('settled' in message) {
      settled += message.settled;
      if (wanted !== undefined && settled >= wanted.records) wanted.reached();
    } else if ('lanes' in message) {
      lanes[member] = message.lanes;
    } else {
      peaks.push(message.peakMb);
    }
  };
  const children = Array.from({ length: processes }, (_, member) => {
    const child = started(args, cache);
    child.on('message', message => hear(member, message as FromMember));
    child.on('error', failed.reject);
    child.on('exit', code => {
      if (!leaving || code !== 0) failed.reject(new Error(`a member of the group ended with ${code}`));
    });
    return child;
  });
  const tell = (message: ToMember) => void children.map(child => child.send(message));
  return {
    lanes: () => lanes.reduce((total, own) => total + own, 0),
    failed: failed.promise,
    begin: () => tell('begin'),
    async settled(records) {
      const { promise, resolve } = Promise.withResolvers<void>();
      wanted = { records, reached: resolve };
      if (settled >= records) resolve();
      await Promise.race([promise, failed.promise]);
      wanted = undefined;
    },
    async leave() {
      leaving = true;
      const exits = Promise.all(children.map(child => new Promise(resolve => child.once('exit', resolve))));
      tell('leave');
      await Promise.race([exits, failed.promise]);
      return Math.max(...peaks);
    },
    kill() {
      leaving = true;
      for (const child of children) child.kill('SIGKILL');
    },
  };
}

/** With a cache of compiled code: from the second on, a process that is measured carries no compiler of TypeScript. */
function started(args: readonly string[], cache: string): ChildProcess {
  return fork(CHILD, args, {
    execArgv: ['--disable-warning=TimeoutNegativeWarning'],
    env: { ...process.env, NODE_COMPILE_CACHE: cache },
  });
}
