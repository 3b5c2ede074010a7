import { readFile } from 'node:fs/promises';
import { describe, expect, inject, test } from 'vitest';
import { aboutOf, CORPUS, example, pathOf } from '../../bench/verify/corpus.ts';
import { render, verify } from '../../src/verify/index.ts';
import { redisMissing } from '../../src/verify/servers/redis-server.ts';
import { freshDatabase } from '../support/postgres.ts';

const LONG = process.env.NEVERTWICE_KILLS !== undefined;
const { right, wrong } = CORPUS;
// The verifier starts a Redis for those that need one.
const noRedis = (await redisMissing()) !== undefined;
const left = (file: string) => noRedis && file.includes('redis');

/** All of them start some fifteen hundred processes. What people write most is played every time, the rest in the long run. */
const EVERY_TIME = [
  'naive',
  'check-then-act',
  'mark-first',
  'mark-after',
  'no-unique-key',
  'on-conflict-ignored',
  'swallowed-error',
  'forgotten-await',
  'effect-outside-transaction',
  'lease-no-fence',
  'ack-first',
  'kafka-offset-past-failure',
  'throws-on-duplicate',
  'memory-set',
  'insert-if-absent',
  'http-in-transaction',
  'knex-outside-transaction',
  'lease-in-a-table',
  'sqlite-check-then-act',
  'sqlite-mark-first',
  'window-on-own-clock',
  'tries-three-times',
  'pruned-too-soon',
  'redis-check-postgres-write',
  'redis-set-nx-first',
  'redis-lease-no-fence',
  'ok-inbox-tx',
  'ok-inbox-one-statement',
  'ok-postgres-js-begin',
  'ok-lease-in-a-table',
  'ok-sqlite-inbox-tx',
  'ok-http-idempotency-key',
  'ok-redis-lua-mark-and-effect',
];
const now = (file: string) => LONG || EVERY_TIME.includes(file.replace(/\.ts$/, ''));

// One server for all; each run has a database of its own on it.
const postgres = () => inject('services').NEVERTWICE_TEST_POSTGRES!;

test('there are enough of them, each with a comment that says why, in the README beside them', async () => {
  expect(wrong.length).toBeGreaterThanOrEqual(40);
  expect(right.length).toBeGreaterThanOrEqual(15);
  const readme = await readFile(new URL('../../examples/verify/README.md', import.meta.url), 'utf8');
  const files = [...wrong, ...right];
  expect(EVERY_TIME.filter(name => !files.includes(`${name}.ts`))).toEqual([]);
  for (const file of files) {
    const about = aboutOf(file);
    expect(about, file).toMatch(/^\w.*[.]$/);
    expect(readme, `${file}: run node scripts/corpus-table.ts`).toContain(`| [${file}](${file}) | ${about}`);
  }
  // The shared server answers at all, before sixty runs complain that it does not.
  await (await freshDatabase()).drop();
});

describe('wrong handlers are convicted, by the shortest story', () => {
  test.for(wrong.filter(now))('%s', { timeout: 90_000 }, async (file, { skip }) => {
    if (left(file)) skip('there is no redis-server');
    const { expect: verdict, cost, missed } = await example(file);
    // One that is missed may be found some time, by another order of its requests; it must not be called anything else.
    const bounds = missed === undefined ? {} : { bounds: { total: 1 } };
    const report = await verify({ handler: pathOf(file), postgres: postgres(), ...bounds });
    const [conviction] = report.convictions;
    if (missed !== undefined) return expect([undefined, verdict]).toContain(conviction?.verdict);
    expect(conviction?.verdict, `${report.verdict}: ${report.why}`).toBe(verdict);
    expect(conviction?.cost).toBe(cost);
    const story = render(report, 'terminal', { width: 120, colour: false });
    expect(story).toContain('--replay');
  });
});

describe('right handlers are acquitted', () => {
  test.for(right.filter(now))('%s', { timeout: LONG ? 900_000 : 150_000 }, async (file, { skip }) => {
    if (left(file)) skip('there is no redis-server');
    const { bounds } = await example(file);
    const report = await verify({
      handler: pathOf(file),
      postgres: postgres(),
      bounds: { ...bounds, total: LONG ? 2 : 1 },
      budgetMs: LONG ? 800_000 : 140_000,
    });
    expect(report.verdict, render(report, 'terminal', { width: 120, colour: false })).toBe('once');
  });
});
