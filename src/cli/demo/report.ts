import { styleText } from 'node:util';
import { wrapped } from '../../verify/report/text.ts';
import { number } from '../progress.ts';
import { table } from '../table.ts';
import type { Explanation } from './explain.ts';
import type { Contestant, Judgement } from './judge.ts';
import type { Schedule } from './schedule.ts';
import type { Outcome, Standing } from './trial.ts';

const BAR = 24;
const WIDTH = 120;

export function heading({ seed, rounds, payments }: Schedule, contestants: readonly Contestant[]): string {
  const names = Math.max(...contestants.map(({ service }) => service.length));
  return [
    `Wallet services get the same ${number(payments.length)} payments each. Some are sent twice, acknowledgements get lost, partitions`,
    `change hands while messages are in work, and every service is killed with SIGKILL ${rounds.length} times.`,
    '',
    ...contestants.map(({ service, how }) => `  ${service.padEnd(names)}  ${how}`),
    '',
    `seed ${seed}: nevertwice demo --seed ${seed} --kills ${rounds.length} plays the same faults again`,
  ].join('\n');
}

/** One line a service while they run. */
export function standings(all: readonly Standing[], { rounds }: Schedule): readonly string[] {
  const names = Math.max(...all.map(({ service }) => service.length));
  return all.map(({ service, kills, deliveries, finished }) => {
    const full = finished ? BAR : Math.floor((BAR * kills) / (rounds.length + 1));
    const bar = '█'.repeat(full) + '░'.repeat(BAR - full);
    return `  ${service.padEnd(names)}  ${bar}  ${kills} of ${rounds.length} kills, ${number(deliveries)} deliveries`;
  });
}

export function report({ rows, proved }: Judgement, { seed }: Schedule): string {
  const body = table(
    ['consumer', 'expected', 'actual', 'doubled', 'lost', 'verdict'],
    rows.map(({ outcome: { service, expectedCents, actualCents, doubled, lost }, isRight }) => [
      service,
      money(expectedCents),
      money(actualCents),
      String(doubled),
      String(lost),
      isRight ? 'right to the cent' : 'WRONG',
    ]),
    new Set([1, 2, 3, 4]),
  );
  const colored = body.replaceAll(/right to the cent|WRONG/g, verdict =>
    styleText(verdict === 'WRONG' ? 'red' : 'green', verdict, { stream: process.stdout }),
  );
  return `${colored}\n\n${conclusion(rows, proved, seed)}`;
}

function conclusion(rows: Judgement['rows'], proved: boolean, seed: number): string {
  if (proved) return 'Every payment once, whatever happened: only where the id and the effect commit together.';
  const unexpected = rows.filter(row => !row.asExpected);
  return unexpected
    .map(({ outcome, isRight }) =>
      isRight
        ? `${outcome.service} came out right, so this run proved nothing; try more --kills.`
        : `${outcome.service} is off: that is a bug. Please report it with the seed ${seed}.`,
    )
    .join('\n');
}

/** Why, by the verifier, as a list. */
export function reasons(explanations: readonly Explanation[]): string {
  const names = Math.max(...explanations.map(({ service }) => service.length));
  const indent = names + 4;
  return [
    'nevertwice verify on the same handlers, which needs no luck:',
    '',
    ...explanations.flatMap(({ service, verdict, executions, because }) => {
      const lines = wrapped(`${verdict}, after ${executions} executions: ${because}`, WIDTH - indent);
      return lines.map((line, i) => `${`  ${i === 0 ? service : ''}`.padEnd(indent)}${line}`);
    }),
    '',
    'Yours: nevertwice verify ./src/pay.ts#onPay --message m.json --schema s.sql --env DATABASE_URL=postgres',
  ].join('\n');
}

export function asJson(
  { rows, proved }: Judgement,
  { seed, rounds, payments }: Schedule,
  explanations: readonly Explanation[],
): object {
  const consumers = rows.map(({ outcome, isRight }) => {
    const { service, ...rest }: Outcome = outcome;
    const explained = explanations.find(one => one.service === service);
    const { verdict, executions, because } = explained ?? {};
    const verify = explained === undefined ? null : { verdict, executions, because };
    return { consumer: service, ...rest, verdict: isRight ? 'right' : 'wrong', verify };
  });
  return { seed, kills: rounds.length, payments: payments.length, consumers, proved };
}

function money(cents: number): string {
  return (cents / 100).toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}
