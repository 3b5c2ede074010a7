import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** One way to do a job. Contestants take turns in rounds, so that a bad second of the machine hits rivals alike. */
export interface Contestant {
  /** Stable: rows and comparisons name it. */
  readonly id: string;
  /** Deliveries that one run takes. */
  readonly events: number;
  /** Not timed: everything back to the start. Resolves with the run itself, which is timed. */
  prepare(): Promise<() => Promise<void>>;
  /** Not timed, after every run: rejects unless every effect is there exactly once. */
  check(): Promise<void>;
  /** What else was measured in the last run; none by default. */
  more?(): Readonly<Record<string, Measure>>;
}

/** One line of the result: a contestant's rate, and how it compares with another one. */
export interface Row {
  /** Stable and unique. */
  readonly id: string;
  /** For people, a few words. */
  readonly what: string;
  /** The contestant, when its id is not the row's. */
  readonly of?: string;
  /** The contestant it is compared with. */
  readonly against?: string;
  /** The least ratio to reach. */
  readonly target?: number;
}

/** What a bench prints for a row. */
export interface Result {
  readonly id: string;
  readonly what: string;
  /** Median over the rounds. */
  readonly value: number;
  readonly unit: string;
  readonly against: string | null;
  /** Median over the rounds of the ratio of the two rates in the same round. */
  readonly ratio: number | null;
  /** (largest − smallest) / median over the rounds: of the ratio where there is one, else of the value. */
  readonly spread: number;
  readonly target: Target | undefined;
  /** Processor time of this process per event, in microseconds; median over the rounds. Hardly moves on a busy machine. */
  readonly cpuUs?: number;
  /** What else was measured in the same runs, by the head of its column: such rows are printed as a table of their own. */
  readonly more?: Readonly<Record<string, Measure>>;
}

export interface Measure {
  readonly value: number;
  readonly unit: string;
}

/** `ratio` at least, or `value` at most. */
export type Target = { readonly ratio: number } | { readonly atMost: number };

export interface ContestOptions {
  /** Timed rounds. One more, untimed, comes first and warms up compiler and caches. */
  readonly rounds: number;
  /** No further round begins after this long; one is timed in any case. Milliseconds, default no limit. */
  readonly withinMs?: number;
  /** Told after every run that came out right. */
  readonly onChecked?: (contestant: string, round: number) => void;
}

/** How one timed run went. */
export interface Timing {
  readonly rate: number;
  readonly cpuUs: number;
  readonly more: Readonly<Record<string, Measure>>;
}

/** The timings of every contestant, by id and round. Rejects, naming the contestant, when a check does. */
export async function contest(
  contestants: readonly Contestant[],
  options: ContestOptions,
): Promise<ReadonlyMap<string, readonly Timing[]>> {
  const timings = new Map(contestants.map(({ id }) => [id, [] as Timing[]]));
  const deadline = performance.now() + (options.withinMs ?? Number.POSITIVE_INFINITY);
  for (let round = 0; round <= options.rounds; round++) {
    if (round > 1 && performance.now() > deadline) break;
    // There and back: whoever comes late in one round comes early in the next, so that a drift favours nobody.
    for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) {
      const timing = await timed(contestant);
      options.onChecked?.(contestant.id, round);
      if (round > 0) timings.get(contestant.id)!.push(timing);
    }
  }
  return timings;
}

async function timed(contestant: Contestant): Promise<Timing> {
  const run = await contestant.prepare();
  // The garbage of the preparation, and of whoever ran before, is not this contestant's to collect.
  collectGarbage();
  const start = performance.now();
  const cpu = process.cpuUsage();
  await withinLimit(contestant.id, run());
  const { user, system } = process.cpuUsage(cpu);
  const ms = performance.now() - start;
  await contestant.check().catch(error => {
    throw new Error(`${contestant.id} came out wrong: ${(error as Error).message}`, { cause: error });
  });
  return {
    rate: (contestant.events / ms) * 1_000,
    cpuUs: (user + system) / contestant.events,
    more: contestant.more?.() ?? {},
  };
}

/** Far more than any run takes: without a limit, a contestant that stalls would be waited for all night. */
const RUN_WITHIN_MS = 120_000;

async function withinLimit(id: string, run: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`${id} did not end within ${RUN_WITHIN_MS / 1_000} s`)),
    RUN_WITHIN_MS,
  );
  try {
    await Promise.race([run, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** The results of `rows` from the timings of a contest. */
export function resultsFor(rows: readonly Row[], timings: ReadonlyMap<string, readonly Timing[]>): readonly Result[] {
  return rows.map(row => {
    const runs = timings.get(row.of ?? row.id) ?? [];
    const own = runs.map(({ rate }) => rate);
    const others = row.against === undefined ? undefined : (timings.get(row.against) ?? []);
    const ratios = others === undefined ? undefined : own.map((rate, round) => rate / others[round]!.rate);
    return {
      id: row.id,
      what: row.what,
      value: median(own),
      unit: 'events/s',
      against: row.against ?? null,
      ratio: ratios === undefined ? null : median(ratios),
      spread: spread(ratios ?? own),
      target: row.target === undefined ? undefined : { ratio: row.target },
      cpuUs: median(runs.map(({ cpuUs }) => cpuUs)),
      ...moreOf(runs),
    };
  });
}

/** The median of each over the rounds. */
function moreOf(runs: readonly Timing[]): Pick<Result, 'more'> {
  const heads = Object.entries(runs[0]?.more ?? {});
  if (heads.length === 0) return {};
  const all = (head: string) => median(runs.map(({ more }) => more[head]!.value));
  return { more: Object.fromEntries(heads.map(([head, { unit }]) => [head, { value: all(head), unit }])) };
}

export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('no rounds were timed');
  const sorted = values.toSorted((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** (largest − smallest) / median. */
export function spread(values: readonly number[]): number {
  return (Math.max(...values) - Math.min(...values)) / median(values);
}
