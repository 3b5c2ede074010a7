// `node scripts/corpus-table.ts [wrong] [right]`: plays examples/verify and puts what came out into its README.
import { readFile, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { CORPUS, type Played, playCorpus } from '../bench/verify/corpus.ts';
import { startPostgres } from '../src/verify/servers/postgres-server.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { total: { type: 'string', default: '2' }, budget: { type: 'string', default: '300' } },
});
const README = new URL('../examples/verify/README.md', import.meta.url);

const server = await startPostgres({ durable: false });
try {
  const played = (one: Played) =>
    console.error(`${one.file}: ${one.report.verdict}, ${one.report.executions} executions`);
  const wants = (name: string) => positionals.length === 0 || positionals.includes(name);
  let text = await readFile(README, 'utf8');
  if (wants('wrong')) {
    const start = performance.now();
    const wrong = await playCorpus(CORPUS.wrong, { postgres: server.url, played });
    text = fill(text, 'wrong', wrongTable(wrong, (performance.now() - start) / 1_000));
  }
  if (wants('right')) {
    const right = await playCorpus(CORPUS.right, {
      postgres: server.url,
      total: Number(values.total),
      budgetMs: Number(values.budget) * 1_000,
      played,
    });
    text = fill(text, 'right', rightTable(right));
  }
  await writeFile(README, text);
} finally {
  await server.stop();
}

function fill(text: string, name: string, table: string): string {
  const [start, end] = [`<!-- ${name} -->\n`, `<!-- /${name} -->`];
  const from = text.indexOf(start) + start.length;
  const to = text.indexOf(end, from);
  if (from < start.length || to === -1) throw new Error(`the README has no place for the table ${name}`);
  return `${text.slice(0, from)}\n${table}\n${text.slice(to)}`;
}

function wrongTable(all: readonly Played[], seconds: number): string {
  const caught = all.filter(one => one.report.convictions[0]?.verdict === one.expect).length;
  return [
    `${caught} of ${all.length} convicted as expected, in ${Math.round(seconds)} s on ${cpus().length} cores, Node.js ${process.versions.node}, ${new Date().toISOString().slice(0, 10)}.`,
    '',
    '| file | what is wrong | verdict | troubles | executions | seconds | lines |',
    '|---|---|---|---:|---:|---:|---:|',
    ...all.map(({ file, about, expect, report, ms, lines, missed }) => {
      const [story] = report.convictions;
      const verdict = story === undefined ? `${expect}, **not found**` : story.verdict;
      const note = missed === undefined || story !== undefined ? '' : ` (${missed})`;
      return row(
        `[${file}](${file})`,
        `${about}${note}`,
        verdict,
        story?.cost ?? '',
        story?.executions ?? report.executions,
        (ms / 1_000).toFixed(1),
        lines ?? '',
      );
    }),
    '',
  ].join('\n');
}

function rightTable(all: readonly Played[]): string {
  return [
    '| file | why it is right | verdict | complete for | executions | seconds |',
    '|---|---|---|---|---:|---:|',
    ...all.map(({ file, about, report, ms }) =>
      row(
        `[${file}](${file})`,
        about,
        report.verdict,
        report.verdict === 'once'
          ? `${report.bounds.total} troubles`
          : `${Math.max(0, report.completeTo)} troubles, time over`,
        report.executions,
        (ms / 1_000).toFixed(0),
      ),
    ),
    '',
  ].join('\n');
}

function row(...cells: readonly (string | number)[]): string {
  return `| ${cells.join(' | ')} |`;
}
