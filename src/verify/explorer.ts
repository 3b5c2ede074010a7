import { Crew } from './crew.ts';
import { type Bounds, costOf, type Decision, Diverged, labelsOf, type Player, type Tape } from './tape.ts';

/** What came of one execution. `Failure` is whatever the caller calls a failure. */
export interface Played<Failure> {
  readonly failure: Failure | undefined;
}

export interface Found<Failure> {
  readonly tape: Tape;
  readonly failure: Failure;
  readonly decisions: readonly Decision[];
  /** With it, so many have been played and looked at. */
  readonly executions: number;
}

export interface SearchOptions<Failure> {
  readonly bounds: Bounds;
  /** Plays one execution by what the player chooses, on one of the stages: their numbers are from 0. */
  play(player: Player, stage: number): Promise<Played<Failure>>;
  /** Stages that can be played on at the same time; more may come. Default 1. */
  stages?(): number;
  /** No further execution starts once this says true. */
  over(): boolean;
  /** Called after each execution. */
  progress?(progress: Progress): void;
  /** Called with each failure, while nothing is played; true ends the search. */
  failed(found: Found<Failure>): Promise<boolean>;
}

export interface Progress {
  readonly executions: number;
  /** Everything up to this cost has been tried. */
  readonly completeTo: number;
  readonly waiting: number;
}

export interface Searched {
  readonly executions: number;
  /** True when every execution within the bounds was tried. */
  readonly complete: boolean;
  /** Everything up to this cost was tried; −1 when not even the plain delivery was. */
  readonly completeTo: number;
  /** The first execution that did not come where its tape had come before. */
  readonly diverged: Diverged | undefined;
}

/** A tape that has not been played, with what its prefix saw. */
export interface Waiting {
  readonly tape: Tape;
  readonly expected: readonly string[];
}

/**
 * Stateless search, cheapest first. An execution follows its tape and then always takes the first option; each alternative
 * that it passes after its tape becomes a tape of its own. By induction every sequence of choices within the bounds is played
 * exactly once, and the first failure has the least cost there is.
 *
 * Several may be played at a time, and are looked at in the order of their tapes: what is found, and when, is the same.
 */
export async function search<Failure>(options: SearchOptions<Failure>): Promise<Searched> {
  const buckets: Waiting[][] = [[{ tape: [], expected: [] }]];
  const crew = new Crew(options);
  let executions = 0;
  let diverged: Diverged | undefined;
  let ended = false;
  let cost = 0;
  const waiting = () => buckets.reduce((sum, bucket) => sum + (bucket?.length ?? 0), 0);

  try {
    for (; cost < buckets.length && !ended; cost++) {
      const bucket = buckets[cost] ?? [];
      // In the order of discovery: the earlier the step that differs, the earlier its tape. Alternatives without a cost come
      // into the bucket that is being emptied.
      let begun = 0;
      for (let next = 0; next < bucket.length; next++) {
        while (!crew.hasDone) {
          for (; begun < bucket.length && crew.hasRoom && !options.over(); begun++) crew.begin(bucket[begun]!);
          if (crew.isIdle) break;
          await crew.changed();
        }
        if (crew.isIdle) {
          ended = true;
          bucket.splice(0, next);
          break;
        }
        const { player, tape, played } = await crew.next();
        executions++;
        if (played instanceof Diverged) diverged ??= played;
        else {
          branch(buckets, player, tape.length);
          const { failure } = played;
          if (failure !== undefined) {
            await crew.quiet();
            const found = { tape: takenOf(player), failure, decisions: player.decisions, executions };
            if (await options.failed(found)) ended = true;
          }
        }
        options.progress?.({ executions, completeTo: cost - 1, waiting: waiting() - next - 1 });
        if (ended) {
          bucket.splice(0, next + 1);
          break;
        }
      }
      if (!ended) buckets[cost] = [];
    }
  } finally {
    await crew.quiet();
  }
  return {
    executions,
    complete: !ended && diverged === undefined,
    completeTo: ended ? cost - 2 : cost - 1,
    diverged,
  };
}

function branch(buckets: Waiting[][], player: Player, from: number): void {
  const { decisions } = player;
  const labels = decisions.map(decision => labelsOf(decision.options));
  const taken = decisions.map(decision => decision.taken);
  for (let at = from; at < decisions.length; at++) {
    const { options, spent } = decisions[at]!;
    for (let choice = 1; choice < options.length; choice++) {
      const cost = costOf(spent) + costOf(options[choice]!.cost);
      buckets[cost] ??= [];
      buckets[cost].push({ tape: [...taken.slice(0, at), choice], expected: labels.slice(0, at + 1) });
    }
  }
}

/** Without the first options at the end, which are what comes without a tape. */
export function takenOf(player: Player): Tape {
  const taken = player.decisions.map(decision => decision.taken);
  while (taken.length > 0 && taken.at(-1) === 0) taken.pop();
  return taken;
}
