import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, expect, inject, test } from 'vitest';
import { render, type VerifyOptions, verify } from '../../src/verify/index.ts';
import { type Client, type Library, payment, wallet } from './house-support.ts';

const sources = fileURLToPath(new URL('../../src/', import.meta.url));
// Beside the sources, where their packages are found.
const copies = fileURLToPath(new URL('../../.cache/mutants/', import.meta.url));
const made: string[] = [];

afterAll(() => Promise.all(made.map(folder => rm(folder, { recursive: true, force: true }))));

interface Edit {
  /** Relative to `src/`. */
  readonly file: string;
  readonly line: string;
  readonly instead: string;
}

interface Mutant {
  readonly without: string;
  readonly edits: readonly Edit[];
  readonly verdict: string;
  readonly cost: number;
  readonly client?: Client;
  readonly options?: Partial<VerifyOptions>;
}

/**
 * The library with one line of its safety taken out. A verifier that acquits one of them proves nothing about the library, and
 * a line that can be taken out without a conviction is none of safety.
 */
const MUTANTS: readonly Mutant[] = [
  {
    without: 'a unique key on the inbox, and the look for it at the start',
    edits: [
      {
        file: 'stores/postgres/migrations.ts',
        line: '  fp bytea,\n  PRIMARY KEY (consumer, key)\n',
        instead: '  fp bytea\n',
      },
      { file: 'stores/postgres/check.ts', line: 'rows[0]!.keyed !== true', instead: 'false' },
    ],
    verdict: 'double',
    cost: 1,
  },
  {
    without: 'the look at which of the claims are fresh',
    edits: [
      {
        file: 'attempt.ts',
        line: 'entries.filter((_, i) => unit.fresh[i])',
        instead: 'entries.filter(() => true)',
      },
    ],
    verdict: 'double',
    cost: 1,
  },
  {
    without: 'the transaction around claim and effect',
    edits: [
      {
        file: 'stores/postgres/clients/pg.ts',
        line: '{this.#begin};',
        instead: "{'SELECT 1'};",
      },
    ],
    verdict: 'lost',
    cost: 1,
  },
  {
    without: 'the transaction around claim and effect, pipelined,',
    edits: [
      { file: 'stores/postgres/clients/pg.ts', line: 'client.query(this.#begin)', instead: "client.query('SELECT 1')" },
    ],
    verdict: 'lost',
    cost: 1,
    client: 'pg, pipelined',
  },
  {
    without: 'the claim again after a COMMIT that nobody confirmed',
    edits: [
      {
        file: 'within-transaction.ts',
        line: 'await afterUnknownCommit(path, scope, ready);\n        work.pushFront(ready);',
        instead: "for (const entry of ready) entry.verdict = { verdict: 'processed', result: undefined };",
      },
    ],
    verdict: 'lost',
    cost: 1,
  },
  {
    without: 'the wait for the answer to COMMIT',
    edits: [
      {
        file: 'stores/postgres/clients/pg.ts',
        line: 'await this.#commit(connection, guard, behind);',
        instead: 'this.#commit(connection, guard, behind).catch(() => undefined);',
      },
    ],
    verdict: 'wrong',
    cost: 1,
  },
];

test.each(MUTANTS)('without $without the inbox is convicted', { timeout: 120_000 }, async mutant => {
  const { client = 'pg', options, verdict, cost } = mutant;
  const report = await verify({
    ...payment,
    handler: wallet(await mutated(mutant), client),
    postgres: inject('services').NEVERTWICE_TEST_POSTGRES!,
    budgetMs: 100_000,
    ...options,
  });
  const [conviction] = report.convictions;
  const told = render(report, 'terminal', { width: 120, colour: false });
  expect({ verdict: conviction?.verdict, cost: conviction?.cost }, told).toEqual({ verdict, cost });
});

async function mutated({ edits }: Mutant): Promise<Library> {
  await mkdir(copies, { recursive: true });
  const folder = await mkdtemp(copies);
  made.push(folder);
  await cp(sources, join(folder, 'src'), { recursive: true });
  await cp(join(sources, '../package.json'), join(folder, 'package.json'));
  for (const { file, line, instead } of edits) {
    const path = join(folder, 'src', file);
    const text = await readFile(path, 'utf8');
    expect(text.split(line), `${file} has the line, once`).toHaveLength(2);
    await writeFile(
      path,
      text.replace(line, () => instead),
    );
  }
  const [{ createInbox }, { postgresJs, postgresStore }] = await Promise.all(
    ['src/index.ts', 'src/stores/postgres/index.ts'].map(entry => import(pathToFileURL(join(folder, entry)).href)),
  );
  return { createInbox, postgresJs, postgresStore };
}
