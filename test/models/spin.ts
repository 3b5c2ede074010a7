import { execFile } from 'node:child_process';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const models = fileURLToPath(new URL('../../models/', import.meta.url));

/** Undefined when models can be checked here, or else why not, in words that help. */
export async function spinMissing(): Promise<string | undefined> {
  for (const [program, ...args] of [
    ['spin', '-V'],
    ['gcc', '--version'],
  ] as const) {
    const found = await run(program, args).catch(() => undefined);
    if (found === undefined) return `there is no ${program}: install spin and gcc`;
  }
  return undefined;
}

/** What a search came to. */
export interface Searched {
  /** What was reached of what the model marks with `never` or `sometimes`; in other words what else is wrong, as a deadlock. */
  readonly reached: ReadonlySet<string>;
  /** All states that can be reached were visited. */
  readonly complete: boolean;
  readonly states: number;
}

export interface Checker {
  search(settings: Readonly<Record<string, number>>): Promise<Searched>;
}

/**
 * Compiles a model once for many settings: to compile costs ten times as much as most searches. What is in `settings` is read
 * from the environment when the checker runs, where `spin -D` would make a constant of it; `sizes` are constants.
 */
export async function compile(
  name: string,
  folder: string,
  settings: readonly string[],
  sizes: Readonly<Record<string, number>>,
): Promise<Checker> {
  await copyFile(join(models, `${name}.pml`), join(folder, `${name}.pml`));
  const defines = [
    ...settings.map((setting, i) => `#define ${setting} c_expr { setting[${i}] }`),
    ...Object.entries(sizes).map(([size, value]) => `#define ${size} ${value}`),
  ];
  await writeFile(join(folder, 'run.pml'), [...defines, `#include "${name}.pml"`, ''].join('\n'));
  await writeFile(join(folder, 'setting.h'), settingsHeader(settings.length));
  const cwd = { cwd: folder };
  await run('spin', ['-a', 'run.pml'], cwd);
  // Safety only, and no reduction by partial orders, which would have to know what c_expr reads.
  const flags = ['-Og', '-w', '-DSAFETY', '-DNOREDUCE', '-DNOFAIR', '-include', 'setting.h'];
  await run('gcc', [...flags, '-o', 'pan', 'pan.c'], cwd);
  return {
    async search(values) {
      const unknown = Object.keys(values).filter(value => !settings.includes(value));
      if (unknown.length > 0) throw new Error(`not compiled as settings: ${unknown}`);
      // -c0: go on after what is found, so that one search tells of all properties.
      const { stdout } = await run('./pan', ['-c0', '-n', '-m200000', '-w20'], {
        ...cwd,
        env: { ...process.env, SETTINGS: settings.map(setting => values[setting] ?? 0).join(' ') },
        maxBuffer: 256 * 1024 * 1024,
      }).catch((error: { stdout?: string; code?: unknown }) => {
        if (typeof error.code !== 'number' || error.stdout === undefined) throw error;
        return { stdout: error.stdout };
      });
      return read(stdout);
    },
  };
}

function settingsHeader(count: number): string {
  return `#include <stdlib.h>
static long setting[${count + 1}];
__attribute__((constructor)) static void read_settings(void) {
  char *text = getenv("SETTINGS");
  for (int i = 0; text && i < ${count}; i++) setting[i] = strtol(text, &text, 10);
}
`;
}

function read(output: string): Searched {
  const reached = new Set<string>();
  for (const [, what = ''] of output.matchAll(/^pan:\d+: (.*) \(at depth \d+\)$/gm)) {
    // `!(twice)`, or `!((…&&crashed))`.
    reached.add(/^assertion violated .*?(\w+)\)+$/.exec(what)?.[1] ?? what);
  }
  const [, states] = /^\s*(\d+) states, stored/m.exec(output) ?? [];
  return {
    reached,
    complete: states !== undefined && !/Search not completed|search depth too small|aborting/.test(output),
    states: Number(states ?? 0),
  };
}
