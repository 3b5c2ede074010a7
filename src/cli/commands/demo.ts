import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseCommand, wholeNumber } from '../arguments.ts';
import { CommandError } from '../command-error.ts';
import type { Command } from '../command-line.ts';
import { CONTESTANTS, type Contestant, judge } from '../demo/judge.ts';
import { asJson, heading, reasons, report, standings } from '../demo/report.ts';
import { scheduleFor } from '../demo/schedule.ts';
import { type Outcome, type Standing, trial } from '../demo/trial.ts';
import { EXIT } from '../exit-codes.ts';
import type { Output } from '../output.ts';

const KILLS = 10;
const DRAW_EVERY_MS = 100;

const HELP = `nevertwice demo [--seed N] [--kills N] [--json]

Shows on your machine what at-least-once delivery does to a wallet. It needs nothing but this package and about fifteen
seconds: a broker in this process, services in processes of their own, SQLite files in a temporary folder.

  nevertwice demo
  nevertwice demo --seed 7 --kills 40

Four services get the same payments and the same faults: payments sent twice, lost acknowledgements, partitions that
change hands while messages are in work, two processes at once, and SIGKILL at a named point of the path.

  naive            credits whatever is delivered
  check-then-act   looks the id up, credits, then records the id
  mark-first       records the id, then credits
  nevertwice       claims the id in the transaction that credits

It ends in a table of what each wallet should hold and holds, and of payments that were doubled and lost. Then
nevertwice verify looks at the three others, and says without any luck what is wrong with each.

  --seed N     which payments and faults; default: another one every time, printed so that you can play it again
  --kills N    how often each service is killed; default ${KILLS}, from 2 to 1000
  --json       { seed, kills, payments, consumers, proved }, where each consumer is
               { consumer, expectedCents, actualCents, wrongBalances, doubled, lost, kills, deliveries, verdict,
                 verify }
               and its verdict is "right" or "wrong"; verify is { verdict, executions, because }, or null for nevertwice

Exit codes: 0 nevertwice was right to the cent and the three others were not; 3 otherwise, since the demo has then
proved nothing, or found a bug; 1 a mistake in the command line; 130 and 143 stopped by SIGINT and SIGTERM.`;

/** The command, for these services. */
export function demoOf(contestants: readonly Contestant[]): Command {
  return { help: HELP, run: (args, output) => run(args, output, contestants) };
}

export const command: Command = demoOf(CONTESTANTS);

async function run(args: readonly string[], output: Output, contestants: readonly Contestant[]): Promise<number> {
  const options = { seed: { type: 'string' }, kills: { type: 'string' }, json: { type: 'boolean' } } as const;
  const { values } = parseCommand('demo', args, options, 0);
  const seed = values.seed === undefined ? randomInt(1, 1_000_000) : wholeNumber('--seed', values.seed, 0, 2 ** 32 - 1);
  const kills = values.kills === undefined ? KILLS : wholeNumber('--kills', values.kills, 2, 1_000);
  const json = values.json === true;
  const schedule = scheduleFor(seed, kills);
  if (!json) output.result(`${heading(schedule, contestants)}\n`);

  const standing = contestants.map(({ service }): Standing => ({ service, kills: 0, deliveries: 0, finished: false }));
  const drawing =
    json || !output.isLive ? undefined : setInterval(() => output.draw(standings(standing, schedule)), DRAW_EVERY_MS);
  let outcomes: readonly Outcome[];
  try {
    outcomes = await inFolder((folder, signal) =>
      Promise.all(
        standing.map(async one => {
          const outcome = await trial(one, { schedule, folder, signal });
          if (!json && !output.isLive) tell(output, outcome);
          return outcome;
        }),
      ),
    );
  } finally {
    clearInterval(drawing);
    output.erase();
  }
  const judgement = judge(outcomes, contestants);
  if (!json) output.result(report(judgement, schedule));
  // Loaded when it is needed: whoever asks for the help should not wait for it.
  const { explain } = await import('../demo/explain.ts');
  const explanations = await explain(contestants.map(({ service }) => service));
  if (json) output.result(JSON.stringify(asJson(judgement, schedule, explanations)));
  else if (explanations.length > 0) output.result(`\n${reasons(explanations)}`);
  return judgement.proved ? EXIT.done : EXIT.unproven;
}

function tell(output: Output, { service, kills, deliveries }: Outcome): void {
  output.note(`${service}: killed ${kills} times, ${deliveries} deliveries`);
}

/** Runs `work` with a folder that is deleted afterwards, also when a signal or an error ends it early. */
async function inFolder<R>(work: (folder: string, signal: AbortSignal) => Promise<R>): Promise<R> {
  const folder = await mkdtemp(join(tmpdir(), 'nevertwice-demo-'));
  const controller = new AbortController();
  const onSignal = (name: NodeJS.Signals) => {
    const exitCode = name === 'SIGTERM' ? EXIT.terminated : EXIT.interrupted;
    controller.abort(new CommandError(`stopped by ${name}`, { exitCode }));
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  try {
    return await work(folder, controller.signal);
  } finally {
    // The others must not go on in a folder that is being deleted, when one of them has failed.
    controller.abort();
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
