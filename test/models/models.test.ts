import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { Slots } from '../../src/core/slots.ts';
import { MODELS, type Model, RUNS, type Run, tables } from './runs.ts';
import { type Checker, compile, spinMissing } from './spin.ts';

const LONG = process.env.NEVERTWICE_KILLS !== undefined;
const missing = await spinMissing();

const cores = new Slots(2);
const folders: string[] = [];
const checkers = new Map<string, Promise<Checker>>();

afterAll(async () => {
  await Promise.all(folders.map(folder => rm(folder, { recursive: true, force: true })));
});

async function onCore<R>(work: () => Promise<R>): Promise<R> {
  await cores.take();
  try {
    return await work();
  } finally {
    cores.give();
  }
}

/** The sizes of arrays, which have to be constants. */
const isSize = (define: string) => define === 'MESSAGES' || define === 'STEPS';

/** Bounds of the models: their defaults, which the runs may change. */
const BOUNDS = { CLAIMS: 3, EPOCHS: 4 };

function settingsOf(model: Model['name']): readonly string[] {
  const all = RUNS.filter(run => run.model === model).flatMap(run => Object.keys(run.defines));
  return [...new Set([...all.filter(define => !isSize(define)), 'SOMETIMES'])];
}

function checkerFor(model: Model['name'], sizes: Readonly<Record<string, number>>): Promise<Checker> {
  const key = JSON.stringify([model, sizes]);
  let checker = checkers.get(key);
  if (checker === undefined) {
    checker = onCore(async () => {
      const folder = await mkdtemp(join(tmpdir(), `nevertwice-${model}-`));
      folders.push(folder);
      return compile(model, folder, settingsOf(model), sizes);
    });
    checkers.set(key, checker);
  }
  return checker;
}

async function search(model: Model['name'], defines: Run['defines']) {
  const entries = Object.entries({ ...defaultsOf(model), ...defines });
  const sizes = Object.fromEntries(entries.filter(([define]) => isSize(define)));
  const checker = await checkerFor(model, sizes);
  return onCore(() => checker.search(Object.fromEntries(entries.filter(([define]) => !isSize(define)))));
}

function defaultsOf(model: Model['name']): Record<string, number> {
  const settings = settingsOf(model);
  return Object.fromEntries(Object.entries(BOUNDS).filter(([bound]) => settings.includes(bound)));
}

describe.concurrent('the models', () => {
  test.for(RUNS)('$model: $name', { timeout: 120_000 }, async (run, { skip }) => {
    if (missing !== undefined) return skip(missing);
    if (run.long && !LONG) return skip('only in npm run test:long');
    const { reached, complete } = await search(run.model, run.defines);
    expect([...reached].sort()).toEqual([...run.reached].sort());
    expect(complete, 'the search was complete').toBe(true);
  });

  // A model in which nothing happens would hold, too. That any of these never happens is a property that has to fail.
  test.for(MODELS)('$name: what is said to hold has been tried', { timeout: 120_000 }, async (model, { skip }) => {
    if (missing !== undefined) return skip(missing);
    const [right] = RUNS.filter(run => run.model === model.name && run.reached.length === 0);
    const { reached } = await search(model.name, { ...right!.defines, SOMETIMES: 1 });
    expect([...reached].sort()).toEqual(Object.keys(model.sometimes).sort());
  });
});

test.for(MODELS)('$name: what must never be and what has to be are what the table says', async model => {
  const text = await readFile(new URL(`../../models/${model.name}.pml`, import.meta.url), 'utf8');
  // Not in the definition of the two, nor where the head explains them.
  const marked = (how: string) =>
    [
      ...new Set([...text.matchAll(new RegExp(`(?<!define )\\b${how}\\((\\w\\w+)\\)`, 'g'))].map(([, what]) => what!)),
    ].sort();
  expect(marked('never')).toEqual(Object.keys(model.never).sort());
  expect(marked('sometimes')).toEqual(Object.keys(model.sometimes).sort());
  // Each of them is seen to be violated somewhere, or it could not be.
  for (const what of Object.keys(model.never)) {
    expect(
      RUNS.some(run => run.model === model.name && run.reached.includes(what)),
      what,
    ).toBe(true);
  }
});

test('docs/models.md has the table of runs', async () => {
  const page = await readFile(new URL('../../docs/models.md', import.meta.url), 'utf8');
  expect(page, 'put in what `node test/models/runs.ts` prints').toContain(tables().trim());
});
