import type { Summary } from '../path.ts';
import type { Lag } from '../ports/source.ts';
import type { Output } from './output.ts';

/** How often the line on a terminal is drawn anew, and how often a plain line is written elsewhere. */
const DRAW_EVERY_MS = 200;
const WRITE_EVERY_MS = 5_000;
/** The rate is that of the last seconds: one since the start would hide that it has come to a stop. */
const RATE_OVER_MS = 3_000;

export interface Progress {
  /** The state of the counts and of the source, asked for whenever a line is made. */
  readonly counts: () => Readonly<Summary>;
  readonly lag: () => Lag | undefined;
}

/** Shows how a run comes on until `stop`; that takes the live line away and leaves plain ones. */
export function showProgress(output: Output, { counts, lag }: Progress): { stop(): void } {
  const rate = slidingRate();
  const line = () => {
    const { messages, duplicates } = totals(counts());
    const parts = [`${number(messages)} messages`, `${number(duplicates)} duplicates`, `${number(rate(messages))}/s`];
    const left = lag();
    if (left !== undefined) parts.push(`${amount(left)} left`);
    return parts.join(' · ');
  };
  line();
  const timer = output.isLive
    ? setInterval(() => output.draw([line()]), DRAW_EVERY_MS)
    : setInterval(() => output.note(line()), WRITE_EVERY_MS);
  return {
    stop() {
      clearInterval(timer);
      output.erase();
    },
  };
}

/** Every delivery that has got its verdict, and those among them that were copies. */
function totals({ processed, duplicates, conflicts, deadLetters }: Summary): { messages: number; duplicates: number } {
  return { messages: processed + duplicates + conflicts + deadLetters, duplicates };
}

/** Takes a rising total and gives how much it rose a second. */
function slidingRate(): (total: number) => number {
  const samples: { readonly at: number; readonly total: number }[] = [];
  return total => {
    const at = performance.now();
    samples.push({ at, total });
    while (samples.length > 2 && samples[1]!.at < at - RATE_OVER_MS) samples.shift();
    const first = samples[0]!;
    return at === first.at ? 0 : Math.round(((total - first.total) * 1_000) / (at - first.at));
  };
}

export function number(value: number): string {
  return value.toLocaleString('en-US');
}

function amount({ amount, unit }: Lag): string {
  if (unit === 'messages') return number(amount);
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, amount)) / 3));
  return `${(amount / 1_000 ** step).toFixed(step === 0 ? 0 : 1)} ${units[step]}`;
}
