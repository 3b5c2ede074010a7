import { availableParallelism } from 'node:os';
import { dirname } from 'node:path';
import type { VerifyOptions } from './options.ts';
import { type OpenPlaces, openPlaces } from './places/open.ts';
import type { Plan } from './plan.ts';
import { Theatre } from './theatre.ts';

/** More than this was never faster: each has a process at work, one that waits, and a server. */
const MOST = 4;

/** Where executions are played, each with tables, keys and files of its own. */
export class Theatres {
  readonly #plan: Plan;
  readonly #options: VerifyOptions;
  readonly #places: OpenPlaces[] = [];
  readonly #all: Theatre[] = [];
  #opening: Promise<unknown> | undefined;
  /** Open, and not ready to be played on. */
  #unready: Theatre | undefined;
  #closed = false;

  /** @throws VerifyError */
  static async open(plan: Plan, options: VerifyOptions): Promise<Theatres> {
    const theatres = new Theatres(plan, options);
    theatres.#all.push(await theatres.#open(options.postgres));
    return theatres;
  }

  private constructor(plan: Plan, options: VerifyOptions) {
    this.#plan = plan;
    this.#options = options;
  }

  get first(): Theatre {
    return this.#all[0]!;
  }

  at(stage: number): Theatre {
    return this.#all[stage]!;
  }

  get length(): number {
    return this.#all.length;
  }

  /** Opens the others, where there are cores for them; each can be played on when `prepare` has said true. */
  async openOthers(prepare: (theatre: Theatre) => Promise<boolean>): Promise<void> {
    const { concurrency, redis } = this.#options;
    // A server of the user's has one database for us.
    const most = redis === undefined ? (concurrency ?? Math.min(MOST, availableParallelism())) : 1;
    this.#opening ??= (async () => {
      while (this.#all.length < most && !this.#closed) {
        const theatre = await this.#open(this.#options.postgres ?? this.#places[0]!.postgresUrl);
        this.#unready = theatre;
        if (this.#closed || !(await prepare(theatre))) break;
        this.#unready = undefined;
        this.#all.push(theatre);
      }
      // They only make it faster: what goes wrong here is left to the first one.
    })().catch(() => undefined);
    await this.#opening;
  }

  async #open(postgres: string | undefined): Promise<Theatre> {
    const { code } = this.#plan;
    const places = await openPlaces(this.#plan, {
      near: [...(code.kind === 'module' ? [dirname(code.file)] : []), process.cwd()],
      postgres,
      redis: this.#options.redis,
    });
    this.#places.push(places);
    return new Theatre(this.#plan, places.byVariable, places.postgres, places.redis, places.sqlite);
  }

  /** From now on only consumers that have done nothing. */
  async fresh(): Promise<void> {
    for (const theatre of this.#all) await theatre.fresh();
  }

  async close(): Promise<void> {
    this.#closed = true;
    // Whatever prepares it fails then.
    await this.#unready?.close();
    await this.#opening;
    await this.#unready?.close();
    for (const theatre of this.#all) await theatre.close();
    for (const places of this.#places.toReversed()) await places.close();
  }
}
