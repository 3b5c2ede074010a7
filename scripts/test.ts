// `npm test`: everything that can be checked here, in one run. `npm test -- outage` runs only the test files whose path
// has that word. `npm run test:long` takes the full counts of the fault runs. The last line is the count.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Count } from '../test/support/count-reporter.ts';
import { type SuiteGroup, suiteGroups } from '../test/support/services.ts';
import { docsChecks } from './check-docs.ts';
import { packageChecks } from './check-package.ts';
import { promisesCheck } from './check-promises.ts';
import type { Packed } from './pack.ts';
import { type Check, mustRun, run, runChecks, type Tally, temporaryFolder } from './run.ts';

const FULL_KILLS = '1000';
const ci = process.env.CI === 'true';
const args = process.argv.slice(2);
const filters = args.filter(arg => !arg.startsWith('-'));
if (args.includes('--long')) process.env.NEVERTWICE_KILLS ??= FULL_KILLS;

const tally: Tally = { passed: 0, failed: 0, skipped: 0, failures: [] };
const leftOut: string[] = [];
const start = performance.now();
console.log(`Node.js ${process.version} on ${process.platform} ${process.arch}`);

if (filters.length > 0) {
  await suites();
} else {
  let packed: Packed | undefined;
  await runChecks('Code', codeChecks(), tally);
  const checks = packageChecks(await temporaryFolder('package'), done => {
    packed = done;
  });
  await runChecks('Package', checks, tally);
  if (packed !== undefined) {
    process.env.NEVERTWICE_PACKED = packed.app;
    await runChecks('Documentation', await docsChecks(packed), tally);
  }
  await suites();
}

if (leftOut.length > 0) {
  console.log('\nLeft out');
  for (const line of leftOut) console.log(`  ${line}`);
  if (ci) {
    console.log('  With CI=true nothing may be left out, so each of these counts as failed.');
    tally.failed += leftOut.length;
  }
}
if (tally.passed === 0 && tally.failed === 0) {
  console.log('\nNothing ran, which is a failure.');
  tally.failed = 1;
}
if (tally.failures.length > 0) console.log(['\nFailed', ...tally.failures].join('\n  '));
process.exitCode = tally.failed > 0 ? 1 : 0;
console.log(`\nTook ${Math.round((performance.now() - start) / 1000)} s.`);
const skipped = tally.skipped > 0 ? `, ${tally.skipped} skipped` : '';
console.log(`${tally.passed} passed, ${tally.failed} failed${skipped}`);

function codeChecks(): Check[] {
  const program = (name: string, command: string, ...rest: string[]): Check => ({
    name,
    run: async () => {
      await mustRun(command, rest);
      return undefined;
    },
  });
  return [
    program('types', 'tsc', '-p', 'tsconfig.json'),
    program('lint and format', 'biome', 'check', '--error-on-warnings', '.'),
    promisesCheck,
  ];
}

/** Runs the test files whose services can be had, and notes the others as left out. */
async function suites(): Promise<void> {
  console.log('\nSuites');
  const runnable: SuiteGroup[] = [];
  for (const group of suiteGroups()) {
    const reason = await reasonToLeaveOut(group);
    if (reason === undefined) runnable.push(group);
    else leftOut.push(`${group.name} (${count(group.files.length, 'test file')}): ${reason}`);
  }
  if (runnable.length === 0) return;
  const file = join(await temporaryFolder('count'), 'count.json');
  const projects = runnable.map(group => `--project=${group.name}`);
  const reporters = ['--reporter=default', '--reporter=./test/support/count-reporter.ts'];
  const { code } = await run('vitest', ['run', ...filters, ...projects, ...reporters, '--silent=passed-only'], {
    stdio: 'inherit',
    env: { NEVERTWICE_COUNT: file, ...(process.stdout.isTTY ? {} : { NO_COLOR: '1' }) },
  });
  addCount(file, code);
}

async function reasonToLeaveOut(group: SuiteGroup): Promise<string | undefined> {
  for (const service of group.services) {
    if (process.env[service.env] !== undefined) continue;
    const missing = await service.missing();
    if (missing !== undefined) return missing;
  }
  return undefined;
}

function addCount(file: string, code: number): void {
  const { passed, failed, skipped } = existsSync(file)
    ? (JSON.parse(readFileSync(file, 'utf8')) as Count)
    : { passed: 0, failed: [], skipped: [] };
  tally.passed += passed;
  const failures = failed.length === 0 && code !== 0 ? [`vitest ended with ${code}, and named no test`] : failed;
  tally.failed += failures.length;
  tally.failures.push(...failures);
  tally.skipped += skipped.length;
  if (skipped.length > 0) console.log(['Skipped', ...skipped].join('\n  '));
}

function count(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? '' : 's'}`;
}
