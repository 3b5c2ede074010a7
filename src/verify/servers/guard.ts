import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/**
 * Cleans up after a test process that did not get to do it itself: killed with SIGKILL, say, or by a second Ctrl-C.
 * It is a process of its own that holds a pipe from us; when we end in whatever way, the pipe closes, and it kills the
 * processes that we had started, by their ids, and deletes the folders that we had made.
 */
export interface Guard {
  /** `signal` is what ends the process at once, with all that it has started. */
  started(pid: number, signal?: NodeJS.Signals): void;
  ended(pid: number): void;
  folder(path: string): void;
}

let guarding: Guard | undefined;

/** The guard of this process, started on first use. */
export function guard(): Guard {
  guarding ??= start();
  return guarding;
}

function start(): Guard {
  const program = fileURLToPath(
    new URL(`guard-process${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url),
  );
  // Detached, or the Ctrl-C that ends us would end it too.
  const child: ChildProcess = spawn(process.execPath, [program], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const { stdin } = child;
  if (stdin === null) throw new Error('the guard has no pipe');
  child.unref();
  (stdin as unknown as { unref(): void }).unref();
  const tell = (...words: (string | number)[]): void => {
    stdin.write(`${JSON.stringify(words)}\n`);
  };
  return {
    started: (pid, signal = 'SIGQUIT') => tell('started', pid, signal),
    ended: pid => tell('ended', pid),
    folder: path => tell('folder', path),
  };
}
