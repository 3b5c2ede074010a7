import type { Played, SearchOptions, Waiting } from './explorer.ts';
import { Diverged, Player, type Tape } from './tape.ts';

/** So many may be done before the oldest is: one with a SIGKILL takes as long as five without. */
const AHEAD = 8;

/** An execution that has been played. */
export interface Done<Failure> {
  readonly tape: Tape;
  readonly player: Player;
  readonly played: Played<Failure> | Diverged;
}

interface Underway<Failure> {
  readonly tape: Tape;
  readonly player: Player;
  readonly playing: Promise<Played<Failure> | Diverged>;
  done: boolean;
}

/** Plays on all stages at a time; what is done is handed over in the order in which it was begun. */
export class Crew<Failure> {
  readonly #options: SearchOptions<Failure>;
  /** Oldest first. */
  readonly #underway: Underway<Failure>[] = [];
  readonly #busy = new Map<number, Promise<unknown>>();

  constructor(options: SearchOptions<Failure>) {
    this.#options = options;
  }

  /** A stage is free, and the oldest is not too far behind. */
  get hasRoom(): boolean {
    return this.#free() !== undefined && this.#underway.length < AHEAD;
  }

  get isIdle(): boolean {
    return this.#underway.length === 0;
  }

  /** The oldest is done. */
  get hasDone(): boolean {
    return this.#underway[0]?.done === true;
  }

  begin({ tape, expected }: Waiting): void {
    const stage = this.#free()!;
    const player = new Player(tape, this.#options.bounds, expected);
    const playing = this.#options.play(player, stage).catch(error => {
      if (error instanceof Diverged) return error;
      throw error;
    });
    const one: Underway<Failure> = { tape, player, playing, done: false };
    const ended = () => {
      one.done = true;
      this.#busy.delete(stage);
    };
    this.#busy.set(stage, playing.then(ended, ended));
    this.#underway.push(one);
  }

  /** Resolves when one of those that are played is done. */
  async changed(): Promise<void> {
    await Promise.race(this.#busy.values());
  }

  /** The oldest. @throws whatever `play` did, but for `Diverged` */
  async next(): Promise<Done<Failure>> {
    const { tape, player, playing } = this.#underway.shift()!;
    return { tape, player, played: await playing };
  }

  /** Resolves when nothing is played; what was begun and has not been handed over waits. */
  async quiet(): Promise<void> {
    await Promise.all(this.#busy.values());
  }

  #free(): number | undefined {
    const stages = this.#options.stages?.() ?? 1;
    for (let stage = 0; stage < stages; stage++) if (!this.#busy.has(stage)) return stage;
    return undefined;
  }
}
