import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const path = (relative: string) => fileURLToPath(new URL(`../../${relative}`, import.meta.url));

export const MAIN: string = path('src/cli/main.ts');
export const WALLET: string = path('examples/wallet/consumer.ts');
export const PAYMENTS: string = path('examples/wallet/payments.jsonl');

/** Stripping the types anew for each start would be most of the time of these tests. */
const CACHE = path('.cache/compiled');

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ProgramOptions {
  readonly cwd?: string;
  /** Written to its standard input, which is closed then; `open` leaves it to the test. Default: empty. */
  readonly input?: string | { readonly open: true };
  /** Flags of Node.js itself. */
  readonly node?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** The program; default: the sources' own. */
  readonly main?: string;
}

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** What it has written so far. */
  readonly output: { stdout: string; stderr: string };
}

/** Starts `nevertwice` with these arguments. It is killed at the end of the test if it still runs then. */
export function start(args: readonly string[], options: ProgramOptions = {}): Running {
  const { cwd, input = '', node = [], env = {}, main = MAIN } = options;
  const child = spawn(process.execPath, [...node, main, ...args], {
    cwd,
    env: { ...process.env, NO_COLOR: '1', NODE_COMPILE_CACHE: CACHE, ...env },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output.stderr += text;
  });
  // A program that does not read its input may be gone before all of it is written.
  child.stdin.on('error', () => undefined);
  if (typeof input === 'string') child.stdin.end(input);
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, ...output }));
  });
  return { child, ended, output };
}

export function nevertwice(args: readonly string[], options?: ProgramOptions): Promise<Ended> {
  return start(args, options).ended;
}

/** A folder that is gone after the test, with these files in it. */
export async function folderWith(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-cli-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

/** What `run` prints for these counts. */
export function line(
  processed: number,
  duplicates: number,
  rest: { conflicts?: number; dead?: number; failed?: number } = {},
): string {
  const { conflicts = 0, dead = 0, failed = 0 } = rest;
  return `processed ${processed} · duplicates ${duplicates} · conflicts ${conflicts} · dead letters ${dead} · failed ${failed}\n`;
}
