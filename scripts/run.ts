import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository, with a trailing slash. */
export const root: string = fileURLToPath(new URL('../', import.meta.url));

/** One thing that is right or wrong. Throws what is wrong, in words for the reader; may return a note about a success. */
export interface Check {
  readonly name: string;
  readonly run: () => Promise<string | undefined>;
  /** The checks after it in its list stand on this one, and are not run when it fails. */
  readonly gate?: boolean;
}

export interface Tally {
  passed: number;
  failed: number;
  skipped: number;
  /** A line each, said again at the end, where a reader of a long log looks first. */
  readonly failures: string[];
}

/** Runs checks one after the other and prints a line each. */
export async function runChecks(heading: string, checks: readonly Check[], tally: Tally): Promise<void> {
  console.log(`\n${heading}`);
  for (const check of checks) {
    const start = performance.now();
    try {
      const note = await check.run();
      tally.passed += 1;
      const seconds = ((performance.now() - start) / 1000).toFixed(1);
      console.log(`  ok    ${check.name}${note === undefined ? '' : `: ${note}`} (${seconds} s)`);
    } catch (error) {
      tally.failed += 1;
      tally.failures.push(check.name);
      console.log(`  FAIL  ${check.name}`);
      const text = error instanceof Wrong ? error.message : error instanceof Error ? error.stack : String(error);
      console.log(`${text}`.trimEnd().replaceAll(/^/gm, '        '));
      if (check.gate === true) return;
    }
  }
}

/** What a check found wrong: shown as it is, without a stack. */
export class Wrong extends Error {}

export interface Finished {
  /** Exit code; 128 plus the signal's number when a signal ended it. */
  readonly code: number;
  /** What it wrote to both streams, in order of arrival. */
  readonly output: string;
  readonly stdout: string;
}

const END_WITHIN_MS = 10_000;
const running = new Set<ChildProcess>();
const folders = new Set<string>();

let watching = false;

/** A Ctrl-C or a CI's time-out ends what was started, then this process; its folders go in any case. */
function cleanUpAtTheEnd(): void {
  if (watching) return;
  watching = true;
  process.once('exit', () => {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });
  const signals = { SIGINT: 130, SIGTERM: 143 };
  for (const [signal, code] of Object.entries(signals) as [keyof typeof signals, number][]) {
    process.once(signal, () => {
      for (const child of running) child.kill(signal);
      void Promise.all([...running].map(child => once(child, 'exit'))).finally(() => process.exit(code));
      setTimeout(() => process.exit(code), END_WITHIN_MS).unref();
    });
  }
}

/** Runs a program of the repository (`tsc`, `biome`), `node`, or one of the path, and collects what it writes. */
export async function run(program: string, args: readonly string[], options: SpawnOptions = {}): Promise<Finished> {
  cleanUpAtTheEnd();
  const child = spawn(program, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...options,
    env: {
      ...process.env,
      ...options.env,
      PATH: `${join(root, 'node_modules/.bin')}${delimiter}${options.env?.PATH ?? process.env.PATH}`,
    },
  });
  running.add(child);
  let output = '';
  let stdout = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      running.delete(child);
      resolve({ code: code ?? (signal === null ? 1 : 128), output, stdout });
    });
  });
}

/** Like `run`, but what fails is `Wrong` with the program's output. */
export async function mustRun(program: string, args: readonly string[], options?: SpawnOptions): Promise<Finished> {
  const finished = await run(program, args, options);
  if (finished.code !== 0) throw new Wrong(finished.output.trim() || `${program} ended with ${finished.code}`);
  return finished;
}

/** A new folder that is deleted when this process ends. */
export async function temporaryFolder(name: string, parent: string = tmpdir()): Promise<string> {
  cleanUpAtTheEnd();
  const folder = await mkdtemp(join(parent, `nevertwice-${name}-`));
  folders.add(folder);
  return folder;
}
