import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readFixture } from '../../src/verify/hosts/read-fixture.ts';
import { type Bounds, type Report, render, verify } from '../../src/verify/index.ts';

const folder = new URL('../../examples/verify/', import.meta.url);
const files = readdirSync(folder).filter(file => file.endsWith('.ts') && !file.endsWith('fixture.ts'));

export const CORPUS = {
  wrong: files.filter(file => !file.startsWith('ok-')),
  right: files.filter(file => file.startsWith('ok-')),
};

/** What a handler of examples/verify says of itself. */
export interface Example {
  readonly file: string;
  /** The comment at its top. */
  readonly about: string;
  readonly expect: string;
  /** Troubles that the shortest story needs. */
  readonly cost: number | undefined;
  readonly bounds: Partial<Bounds> | undefined;
  /** Why the verifier does not find it. */
  readonly missed: string | undefined;
}

export interface Played extends Example {
  readonly report: Report;
  /** From the start to the verdict, with the confirmation. */
  readonly ms: number;
  /** Numbered lines of the story. */
  readonly lines: number | undefined;
}

/** The comment at the top of a handler. */
export function aboutOf(file: string): string {
  const lines = readFileSync(pathOf(file), 'utf8').split('\n');
  const end = lines.findIndex(line => !line.startsWith('// '));
  return lines
    .slice(0, end)
    .map(line => line.slice(3))
    .join(' ');
}

export async function example(file: string): Promise<Example> {
  const { verify: fixture } = await readFixture(pathOf(file));
  const { expect, cost, bounds, missed } = fixture as unknown as Omit<Example, 'file' | 'about'>;
  return { file, about: aboutOf(file), expect, cost, bounds, missed };
}

export function pathOf(file: string): string {
  return fileURLToPath(new URL(file, folder));
}

/** Two at a time, each on a database of its own. `total` bounds the troubles of an execution. */
export async function playCorpus(
  names: readonly string[],
  options: {
    readonly postgres: string;
    readonly total?: number;
    readonly budgetMs?: number;
    readonly played?: (played: Played) => void;
  },
): Promise<readonly Played[]> {
  const results: Played[] = [];
  const next = names.values();
  const worker = async () => {
    for (const file of next) {
      const told = await example(file);
      const start = performance.now();
      const report = await verify({
        handler: pathOf(file),
        postgres: options.postgres,
        ...(options.total === undefined ? {} : { bounds: { ...told.bounds, total: options.total } }),
        ...(options.budgetMs === undefined ? {} : { budgetMs: options.budgetMs }),
      });
      const played = { ...told, report, ms: performance.now() - start, lines: linesOf(report) };
      options.played?.(played);
      results.push(played);
    }
  };
  await Promise.all([worker(), worker()]);
  return results.sort((x, y) => (x.file < y.file ? -1 : 1));
}

function linesOf(report: Report): number | undefined {
  if (report.convictions.length === 0) return undefined;
  const story = render(report, 'terminal', { width: 160, colour: false });
  return story.split('\n').filter(line => /^ ?\d+ {2}/.test(line)).length;
}
