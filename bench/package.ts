import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pack } from '../scripts/pack.ts';
import { median, type Result, spread } from './contest.ts';
import type { Suite } from './suites.ts';

const STARTS = { full: 15, quick: 5 };

/** What a user downloads, and how long the command takes to start; of the package as it would be published. */
export const packageSuite: Suite = {
  name: 'package',
  about: 'size of the packed package, and how fast its command starts',
  ids: ['package.cli-start', 'package.packed', 'package.unpacked'],
  async run({ quick, wants, say }) {
    const folder = mkdtempSync(join(tmpdir(), 'nevertwice-bench-'));
    try {
      const { installed, packedSize, unpackedSize, files } = await pack(folder);
      say(`package: ${files.length} files`);
      const results = [
        size('package.packed', 'the tarball', packedSize),
        size('package.unpacked', 'installed', unpackedSize),
      ];
      const cli = join(installed, 'dist/cli/main.js');
      if (existsSync(cli) && wants('package.cli-start')) {
        results.unshift(await startOf(cli, quick ? STARTS.quick : STARTS.full));
      }
      return results.filter(({ id }) => wants(id));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

function size(id: string, what: string, bytes: number): Result {
  return { id, what, value: bytes, unit: 'bytes', against: null, ratio: null, spread: 0, target: undefined };
}

async function startOf(cli: string, starts: number): Promise<Result> {
  const times: number[] = [];
  // The first fills the page cache.
  for (let i = 0; i <= starts; i++) {
    const start = performance.now();
    const child = spawn(process.execPath, [cli, '--version'], { stdio: 'ignore' });
    const [code] = await once(child, 'exit');
    if (code !== 0) throw new Error(`nevertwice --version ended with ${code}`);
    if (i > 0) times.push(performance.now() - start);
  }
  const what = 'nevertwice --version, from spawn to exit';
  const value = median(times);
  const target = { atMost: 300 };
  return {
    id: 'package.cli-start',
    what,
    value,
    unit: 'ms',
    against: null,
    ratio: null,
    spread: spread(times),
    target,
  };
}
