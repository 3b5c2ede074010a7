import type { Random } from '../core/random.ts';
import { type Played, type SearchOptions, takenOf } from './explorer.ts';
import { type Bounds, Diverged, type Option, Player, type Tape } from './tape.ts';

export interface WalkOptions<Failure> extends Omit<SearchOptions<Failure>, 'play' | 'progress'> {
  play(player: Player): Promise<Played<Failure>>;
  readonly random: Random;
  /** Decisions of the longest execution so far. */
  readonly decisions: () => number;
  /** Both say the same of the handler. */
  same(one: Failure, other: Failure): boolean;
  /** Called after each execution. */
  progress?(walks: number): void;
}

/**
 * Executions with all the trouble that the bounds allow, at moments that chance chooses: for what the search does not come to
 * in its time. Resolves to their number.
 */
export async function walk<Failure>(options: WalkOptions<Failure>): Promise<number> {
  for (let walks = 0; ; walks++) {
    if (options.over()) return walks;
    const player = new Walker(options.bounds, options.random, options.decisions());
    const { failure } = await options.play(player);
    options.progress?.(walks + 1);
    if (failure === undefined) continue;
    const found = await shortened(options, player, failure);
    if (await options.failed({ ...found, executions: walks + 1 })) return walks + 1;
  }
}

/**
 * Chooses beforehand at which decisions it will leave the straight way, each as likely as the next. Leaving it at each with
 * some chance instead would spend all trouble early, where the search has been. For so many changes at so many decisions this
 * is how PCT finds what needs them with a chance that can be stated (Burckhardt et al., ASPLOS 2010).
 */
class Walker extends Player {
  readonly #random: Random;
  readonly #changes: ReadonlySet<number>;

  constructor(bounds: Bounds, random: Random, decisions: number) {
    super([], bounds);
    this.#random = random;
    this.#changes = new Set(Array.from({ length: bounds.total }, () => random.between(0, Math.max(0, decisions - 1))));
  }

  override choose(options: readonly Option[]): number {
    const changes = options.length > 1 && this.#changes.has(this.decisions.length);
    return this.take(options, changes ? this.#random.between(1, options.length - 1) : 0);
  }
}

/** Without each choice that the failure does not need. */
async function shortened<Failure>(options: WalkOptions<Failure>, player: Player, failure: Failure) {
  let found = { tape: takenOf(player), failure, decisions: player.decisions };
  for (let at = found.tape.length - 1; at >= 0; at--) {
    if ((found.tape[at] ?? 0) === 0) continue;
    const tape: Tape = found.tape.with(at, 0);
    const again = new Player(tape, options.bounds);
    const played = await options.play(again).catch(error => {
      if (error instanceof Diverged) return { failure: undefined };
      throw error;
    });
    if (played.failure === undefined || !options.same(found.failure, played.failure)) continue;
    found = { tape: takenOf(again), failure: played.failure, decisions: again.decisions };
  }
  return found;
}
