import { fork } from 'node:child_process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { VerifyFixture } from '../options.ts';
import { VerifyError } from '../verify-error.ts';
import { childEnv } from './child-env.ts';

const PROGRAM = new URL(`fixture-main${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);
const WITHIN_MS = 20_000;

/** What a module exports as `verify`, read in a process of its own: what else the module does stays there. */
export function readFixture(file: string): Promise<{ readonly verify: VerifyFixture | undefined }> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(PROGRAM), [pathToFileURL(file).href], {
      execArgv: ['--disable-warning=ExperimentalWarning', '--disable-warning=NevertwiceWarning'],
      env: childEnv(),
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const timer = setTimeout(() => child.kill('SIGKILL'), WITHIN_MS);
    let heard: { verify?: VerifyFixture; broken?: string } | undefined;
    child.on('message', message => {
      heard = message as typeof heard;
      child.kill('SIGKILL');
    });
    child.on('exit', () => {
      clearTimeout(timer);
      if (heard === undefined)
        reject(new VerifyError(`the module ends or hangs while it is loading; it should only export its handler`));
      else if (heard.broken !== undefined) reject(new VerifyError(heard.broken));
      else resolve({ verify: heard.verify });
    });
  });
}
