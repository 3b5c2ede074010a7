// `npm run bench -- [suite …] [--quick] [--json] [--only id,…]`
import { parseArgs } from 'node:util';
import { isMet, jsonOf, tableOf } from './report.ts';
import { type Suite, suites } from './suites.ts';

const HELP = `Measures this library against hand-written loops and the naive consumer, in the same run.

  npm run bench -- [suite …] [options]

Suites (default: all)
${suites.map(suite => `  ${suite.name.padEnd(12)} ${suite.about}`).join('\n')}

Options
  --quick        few and short rounds: about a minute, rougher ratios
  --only id,…    only these rows; sql.pg.batch takes every row that starts with it
  --json         an array of { id, value, unit, against, ratio, spread, more? } on the standard output
  --help         this text

Exits with 0 when all effects came out right, whatever the speed; with 1 when one did not; with 2 for wrong arguments.
`;

class Usage extends Error {}

async function main(args: readonly string[]): Promise<void> {
  const { values, positionals } = parsed(args);
  if (values.help) return void process.stdout.write(HELP);
  const chosen = positionals.length === 0 ? suites : positionals.map(suiteNamed);
  const wants = selection(chosen, values.only);
  const say = (line: string) => void process.stderr.write(`${line}\n`);
  const start = performance.now();
  const results = [];
  for (const suite of chosen) {
    if (suite.ids.some(wants)) results.push(...(await suite.run({ quick: values.quick, wants, say })));
  }
  process.stdout.write(`${values.json ? JSON.stringify(jsonOf(results), undefined, 2) : tableOf(results)}\n`);
  const targets = results.map(isMet).filter(met => met !== undefined);
  const seconds = Math.round((performance.now() - start) / 1_000);
  say(`${targets.filter(Boolean).length} of ${targets.length} targets met, in ${seconds} s`);
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        quick: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        only: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new Usage((error as Error).message, { cause: error });
  }
}

function suiteNamed(name: string): Suite {
  const suite = suites.find(candidate => candidate.name === name);
  if (suite === undefined)
    throw new Usage(`there is no suite ${name}; there are ${suites.map(s => s.name).join(', ')}`);
  return suite;
}

function selection(chosen: readonly Suite[], only: string | undefined): (id: string) => boolean {
  if (only === undefined) return () => true;
  const starts = only.split(',').map(id => id.trim());
  const matches = (start: string, id: string) => id === start || id.startsWith(`${start}.`);
  const ids = chosen.flatMap(suite => suite.ids);
  const unknown = starts.find(start => !ids.some(id => matches(start, id)));
  if (unknown !== undefined) throw new Usage(`there is no row ${unknown}; there are ${ids.join(', ')}`);
  return id => starts.some(start => matches(start, id));
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  const known = error instanceof Usage;
  process.stderr.write(`bench: ${known ? error.message : ((error as Error).stack ?? String(error))}\n`);
  process.exitCode = known ? 2 : 1;
}
