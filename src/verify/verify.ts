import { seeded } from '../core/random.ts';
import { type Execution, execute, ShortPatience, type Stage } from './execution.ts';
import { type SearchOptions, search } from './explorer.ts';
import { HandlerBroken } from './hosts/body.ts';
import type { VerifyOptions } from './options.ts';
import { changedTables, type Deviation, judge, learnNoise, Mask, marksIn, type Oracle } from './oracle.ts';
import { type Plan, planFrom } from './plan.ts';
import { storyOf } from './report/story.ts';
import type { Conviction, Report } from './report.ts';
import { type Bounds, Diverged, ofEach, Player, type Tape, tapeOf, tokenOf } from './tape.ts';
import type { Theatre } from './theatre.ts';
import { Theatres } from './theatres.ts';
import { VerifyError } from './verify-error.ts';
import { walk } from './walks.ts';
import type { State } from './world.ts';

/** Times that a failure is played again before it is believed. */
const CONFIRMATIONS = 3;
/** This part of the time is left to chance where the search does not end before: further troubles than it would come to. */
const WALKS = 0.2;
const NOTHING: Bounds = { total: 0, ...ofEach(0) };

/**
 * Runs a handler with everything that its broker and its network can do to it, cheapest first, on real servers, and looks
 * whether each message still takes effect once.
 *
 * @throws VerifyError where nothing can be said: the handler does not load, the schema does not, no server
 */
export async function verify(options: VerifyOptions): Promise<Report> {
  const plan = await planFrom(options);
  const theatres = await Theatres.open(plan, options);
  try {
    return await new Verification(plan, theatres, options).run();
  } catch (error) {
    if (error instanceof HandlerBroken) throw new VerifyError(error.message, { cause: error });
    throw error;
  } finally {
    await theatres.close();
  }
}

/** An execution with what it left behind. */
interface Judged {
  readonly execution: Execution;
  readonly state: State;
  readonly deviation: Deviation | undefined;
}

/** How an execution is played; without anything a plain delivery on the first theatre. */
interface How {
  readonly faults?: boolean;
  readonly deliveries?: Plan['deliveries'];
  readonly killAlways?: boolean;
  readonly theatre?: Theatre;
  /** It counts when it is looked at, or is none of the search. */
  readonly uncounted?: boolean;
}

/** A story that comes so soon needs nobody else. */
const ALONE = 50;

class Verification {
  readonly #plan: Plan;
  readonly #theatres: Theatres;
  /** Where everything is done but the search. */
  readonly #theatre: Theatre;
  readonly #options: VerifyOptions;
  readonly #startMs = performance.now();
  readonly #ungated = new Set<string>();
  #oracle: Oracle | undefined;
  /** Of the search, in the order of their tapes, and all the others. */
  #searched = 0;
  #executions = 0;
  #patienceMs = 0;
  #silent: string | undefined;
  #walks = 0;
  /** Set before the search: it must offer the same each time. */
  #clocks = false;
  /** Statements that read and write can be made to stand still. */
  #pauses = false;

  constructor(plan: Plan, theatres: Theatres, options: VerifyOptions) {
    this.#plan = plan;
    this.#theatres = theatres;
    this.#theatre = theatres.first;
    this.#options = options;
  }

  async run(): Promise<Report> {
    this.#theatre.prefetch();
    const broken = await this.#learn();
    if (broken !== undefined) return broken;
    if (this.#options.replay !== undefined) return this.#replay(this.#options.replay);

    for (;;) {
      try {
        return await this.#search();
      } catch (error) {
        if (!(error instanceof ShortPatience)) throw error;
        await this.#waitLonger(error);
      }
    }
  }

  async #waitLonger({ waitedMs }: ShortPatience): Promise<void> {
    this.#patienceMs = Math.max(this.#patienceMs, waitedMs * 1.5 + 50);
    await this.#theatres.fresh();
  }

  async #search(): Promise<Report> {
    const convictions: Conviction[] = [];
    const { bounds, budgetMs } = this.#plan;
    let longest = 1;
    // Whoever says a number wants it from the start.
    if (this.#options.concurrency !== undefined) await this.#openOthers();
    const earlier = this.#searched;
    let walking = false;
    const look = async (player: Player, how: How) => {
      const judged = await this.#play(player, { ...how, faults: true });
      longest = Math.max(longest, player.decisions.length);
      this.#options.onExecution?.(judged.execution.trace);
      return { failure: judged.deviation === undefined ? undefined : judged };
    };
    const shared: Pick<SearchOptions<Judged>, 'bounds' | 'failed'> = {
      bounds,
      failed: async ({ tape, failure, decisions, executions }) => {
        if (!walking) this.#searched = earlier + executions;
        this.#theatre.lastScene = this.#options.keepGoing !== true;
        const conviction = await this.#confirmed(
          tape,
          failure,
          decisions.map(d => d.options.map(o => o.label).join(' | ')),
        );
        this.#theatre.lastScene &&= conviction !== undefined;
        if (conviction === undefined) return true;
        convictions.push(conviction);
        return this.#options.keepGoing !== true;
      },
    };
    const progress = (executions: number, completeTo: number) =>
      this.#options.onProgress?.({ executions, completeTo, perSecond: executions / (this.#ms / 1_000) });
    const over = (ms: number) => this.#ms > ms || this.#silent !== undefined;
    const searched = await search<Judged>({
      ...shared,
      play: (player, stage) => look(player, { theatre: this.#theatres.at(stage), uncounted: true }),
      stages: () => this.#theatres.length,
      over: () => over(budgetMs * (1 - WALKS)),
      progress: ({ executions, completeTo }) => {
        this.#searched = earlier + executions;
        progress(executions, completeTo);
        if (executions > ALONE) void this.#openOthers();
      },
    });
    if (!searched.complete && convictions.length === 0) {
      walking = true;
      this.#walks = await walk<Judged>({
        ...shared,
        // The search need not begin anew for it: its time is over, and what it has come to stands.
        play: player =>
          look(player, {}).catch(async error => {
            if (!(error instanceof ShortPatience)) throw error;
            await this.#waitLonger(error);
            return { failure: undefined };
          }),
        over: () => over(budgetMs),
        progress: walks => progress(searched.executions + walks, searched.completeTo),
        random: seeded(Number.parseInt(this.#plan.id, 16)),
        decisions: () => longest,
        same: (one, other) => one.deviation!.verdict === other.deviation!.verdict,
      });
    }
    if (convictions.length > 0) return this.#report('convicted', undefined, convictions, searched.completeTo);
    const why = this.#whyUnknown(searched);
    return this.#report(why === undefined ? 'once' : 'unknown', why, [], searched.completeTo);
  }

  get executions(): number {
    return this.#executions + this.#searched;
  }

  get #ms(): number {
    return performance.now() - this.#startMs;
  }

  #whyUnknown(searched: { complete: boolean; completeTo: number; diverged: Diverged | undefined }): string | undefined {
    if (this.#unconfirmed !== undefined) return this.#unconfirmed;
    if (this.#silent !== undefined)
      return `the handler waits for something that the verifier cannot hold: ${this.#silent}`;
    if (searched.diverged !== undefined) {
      return `the handler does not do the same each time: ${searched.diverged.message}; look for parallel requests, random choices and state that it keeps in the process`;
    }
    const [ungated] = this.#ungated;
    if (ungated !== undefined) return `the handler uses something that the verifier cannot hold: ${ungated}`;
    if (!searched.complete) {
      return `the time was over after ${this.executions} executions; everything with up to ${Math.max(0, searched.completeTo)} troubles was tried; give --budget more, or a smaller --bound`;
    }
    if (this.#idle) {
      return 'a plain delivery changes nothing that can be seen: give a message that has an effect, and look whether the handler commits it';
    }
    return undefined;
  }

  /** A plain delivery leaves everything as it was: then nothing could be doubled or lost. */
  get #idle(): boolean {
    return this.#oracle !== undefined && changedTables(this.#oracle).size === 0;
  }

  #unconfirmed: string | undefined;

  /** What is right: the end state of plain deliveries. Undefined when that went well. */
  async #learn(): Promise<Report | undefined> {
    const { postgres, sqlite } = this.#theatre;
    const mask = new Mask(this.#plan.ignore);
    await this.#warmUp(this.#theatre);
    // What is wrong with it should be known before anything depends on it.
    await this.#expire(this.#theatre);
    await this.#evict(this.#theatre);
    await this.#theatre.reset();
    const seed = await this.#theatre.state([], []);
    const first = await this.#plain();
    if (first.execution.ending.ending !== 'done') return this.#failsAlone(first);
    const second = await this.#plain();
    if (second.execution.ending.ending !== 'done' || !sameSteps(first.execution, second.execution)) {
      // Only a consumer that has done nothing does the same again: it remembers.
      this.#theatre.reusable = false;
      await this.#theatre.fresh();
    }
    const one = this.#theatre.reusable ? first : await this.#plain();
    const other = this.#theatre.reusable ? second : await this.#plain();
    if (one.execution.ending.ending !== 'done') return this.#failsAlone(one);
    this.#clocks = one.execution.readsClock;
    this.#pauses = stepsOf(one.execution).some(({ text }) => postgres?.suits(text) === true);
    if (this.#pauses) await letPause(this.#theatre);
    learnNoise(mask, one.state, other.state);
    for (const column of postgres?.columns.numbered ?? []) mask.learn(column);
    const orders = await this.#orders();
    this.#oracle = {
      seed,
      right: this.#plan.order === 'as-sent' ? [one.state] : [one.state, ...orders],
      reordered: this.#plan.order === 'as-sent' ? orders : [],
      mask,
      accept: new Set(this.#plan.accept),
      columns: postgres?.columns ?? sqlite?.columns,
      marks: marksIn(mask, seed, one.state, this.#plan.messages),
    };
    return undefined;
  }

  /** The first one lets clients connect and lets what creates its tables create them; it is not looked at. */
  async #warmUp(theatre: Theatre): Promise<void> {
    await theatre.reset();
    const warm = await execute(this.#stage({ theatre }), new Player([], NOTHING));
    await theatre.giveBack(warm.left);
    // A handler that remembers has seen the message now.
    await theatre.fresh();
    await theatre.postgres?.learnTables();
    await theatre.sqlite?.learnTables();
  }

  #openOthers(): Promise<void> {
    return this.#theatres.openOthers(theatre => this.#prepare(theatre));
  }

  /** Another theatre is of use when a plain delivery leaves there what it left on the first. */
  async #prepare(theatre: Theatre): Promise<boolean> {
    theatre.reusable = this.#theatre.reusable;
    theatre.prefetch();
    await this.#warmUp(theatre);
    const { execution, deviation } = await this.#plain({ theatre, uncounted: true });
    if (execution.ending.ending !== 'done' || deviation !== undefined) return false;
    if (this.#pauses) await letPause(theatre);
    return true;
  }

  /** End states of the other orders in which the messages may come. */
  async #orders(): Promise<readonly State[]> {
    const { deliveries } = this.#plan;
    if (deliveries.length < 2 || deliveries.length > 4) return [];
    const states: State[] = [];
    for (const order of permutations(deliveries).slice(1)) {
      const { state, execution } = await this.#plain({ deliveries: order });
      if (execution.ending.ending === 'done') states.push(state);
    }
    return states;
  }

  #failsAlone({ execution }: Judged): Report {
    const { ending } = execution;
    const why =
      ending.ending === 'poisoned'
        ? `the handler fails on the message as it is, without any trouble: ${ending.error}`
        : ending.ending === 'silent'
          ? `the handler waits for something that the verifier cannot hold: ${ending.why}`
          : ending.ending === 'stuck'
            ? `the handler does not get through a plain delivery: ${ending.why}`
            : 'a plain delivery did not end';
    return this.#report('unknown', why, [], -1);
  }

  #stage({
    faults = false,
    deliveries = this.#plan.deliveries,
    killAlways = false,
    theatre = this.#theatre,
  }: How = {}): Stage {
    const { messages, resent, rules, manualAck, thinkMs } = this.#plan;
    return {
      messages,
      resent,
      deliveries,
      rules,
      manualAck,
      thinkMs,
      consumers: 2,
      locks: theatre.postgres,
      patienceMs: this.#patienceMs,
      expire: this.#plan.leases.length === 0 && this.#plan.expire === '' ? undefined : () => this.#expire(theatre),
      evict: this.#plan.evicts.length === 0 && this.#plan.prune === '' ? undefined : () => this.#evict(theatre),
      take: () => theatre.take(),
      clocks: this.#clocks,
      pausing: this.#pauses ? theatre.postgres : undefined,
      faults,
      // Cut off from a file nobody can be.
      killAlways: killAlways || theatre.sqlite !== undefined,
    };
  }

  async #expire({ redis, postgres }: Theatre): Promise<void> {
    await redis?.remove(this.#plan.leases);
    if (this.#plan.expire !== '') await postgres?.carryOut('expire', this.#plan.expire);
  }

  async #evict({ redis, postgres }: Theatre): Promise<void> {
    await redis?.remove(this.#plan.evicts);
    if (this.#plan.prune !== '') await postgres?.carryOut('prune', this.#plan.prune);
  }

  /** Each message once, without any trouble. */
  async #plain(how: How = {}): Promise<Judged> {
    return this.#play(new Player([], NOTHING), how);
  }

  async #play(player: Player, how: How): Promise<Judged> {
    const theatre = how.theatre ?? this.#theatre;
    await theatre.reset();
    const execution = await execute(this.#stage(how), player);
    if (how.uncounted !== true) this.#executions++;
    for (const what of execution.ungated) this.#ungated.add(what);
    const state = await theatre.state(execution.published, execution.left);
    await theatre.giveBack(execution.left);
    return { execution, state, deviation: this.#judge(execution, state) };
  }

  #judge({ ending }: Execution, state: State): Deviation | undefined {
    if (this.#oracle === undefined) return undefined;
    if (ending.ending === 'silent') {
      this.#silent ??= ending.why;
      return undefined;
    }
    const differs = judge(this.#oracle, state);
    if (ending.ending === 'done' || differs?.verdict === 'double') return differs;
    const text = ending.ending === 'poisoned' ? `fails at every redelivery: ${ending.error}` : ending.why;
    return {
      verdict: ending.ending,
      differences: [{ table: 'broker', kind: 'wrong', text }, ...(differs?.differences ?? [])],
    };
  }

  /** Played again, by consumers that have done nothing; undefined when it does not come again. */
  async #confirmed(tape: Tape, failure: Judged, labels: readonly string[]): Promise<Conviction | undefined> {
    const { executions } = this;
    const ms = this.#ms;
    for (let i = 0; i < CONFIRMATIONS; i++) {
      await this.#theatre.fresh();
      try {
        const again = await this.#play(new Player(tape, this.#plan.bounds, labels), { faults: true, killAlways: true });
        if (again.deviation?.verdict === failure.deviation!.verdict) continue;
        this.#unconfirmed = `a failure (${failure.deviation!.verdict}) did not come again: the handler does not do the same each time`;
      } catch (error) {
        if (!(error instanceof Diverged)) throw error;
        this.#unconfirmed = `a failure (${failure.deviation!.verdict}) could not be played again: ${error.message}`;
      }
      return undefined;
    }
    return {
      verdict: failure.deviation!.verdict,
      deviation: failure.deviation!,
      trace: failure.execution.trace,
      token: tokenOf(tape, this.#plan.id),
      cost: costOfTape(failure),
      sealedAt: await this.#sealedAt(tape, failure),
      executions,
      ms,
    };
  }

  /**
   * The point of no return: the first decision after which the handler, left alone, always ends wrong. Before it, going
   * straight on would have been well.
   */
  async #sealedAt(tape: Tape, failure: Judged): Promise<number | undefined> {
    const { decisionOf } = failure.execution.trace;
    for (let length = 0; length <= tape.length; length++) {
      if (length > 0 && tape[length - 1] === 0) continue;
      const { deviation } = await this.#play(new Player(tape.slice(0, length), this.#plan.bounds), {
        faults: true,
      }).catch(error => {
        if (error instanceof Diverged) return { deviation: undefined };
        throw error;
      });
      if (deviation === undefined) continue;
      const at = decisionOf.findIndex(decision => decision >= length - 1);
      return at === -1 ? undefined : at;
    }
    return undefined;
  }

  async #replay(token: string): Promise<Report> {
    const found = tapeOf(token);
    if (found === undefined) throw new VerifyError('--replay is no token of a report');
    if (found.plan !== this.#plan.id) {
      throw new VerifyError(
        '--replay comes from another version of the handler, its messages or its options; verify it anew',
      );
    }
    const judged = await this.#play(new Player(found.tape, this.#plan.bounds), { faults: true }).catch(error => {
      if (error instanceof Diverged) return undefined;
      throw error;
    });
    if (judged?.deviation === undefined) {
      return this.#report('unknown', 'played again, this execution went well', [], -1);
    }
    const { deviation, execution } = judged;
    const conviction: Conviction = {
      verdict: deviation.verdict,
      deviation,
      trace: execution.trace,
      token,
      cost: costOfTape(judged),
      sealedAt: await this.#sealedAt(found.tape, judged),
      executions: 1,
      ms: this.#ms,
    };
    return this.#report('convicted', undefined, [conviction], -1);
  }

  #report(
    verdict: Report['verdict'],
    why: string | undefined,
    convictions: readonly Conviction[],
    completeTo: number,
  ): Report {
    const report: Report = {
      verdict,
      why,
      handler: this.#plan.name,
      convictions,
      executions: this.executions,
      walks: this.#walks,
      ms: this.#ms,
      completeTo,
      bounds: this.#plan.bounds,
      readsClock: this.#clocks,
      plan: this.#plan,
      masked: this.#oracle?.mask.learned ?? [],
      assertOnce() {
        if (verdict !== 'once') throw new VerifyError(storyOf(report));
      },
    };
    return report;
  }
}

async function letPause(theatre: Theatre): Promise<void> {
  // What an idle one has left open would keep the tables from being changed.
  await theatre.fresh();
  await theatre.postgres!.letPause();
}

function sameSteps(one: Execution, other: Execution): boolean {
  const steps = ({ trace }: Execution) =>
    trace.events
      .map(event =>
        event.event === 'step'
          ? `${event.place} ${event.text.replace(/'[^']*'|\d+/g, '?')} ${event.result}`
          : event.event,
      )
      .join('\n');
  return steps(one) === steps(other);
}

/** Statements for PostgreSQL. */
function stepsOf({ trace }: Execution): readonly { readonly text: string }[] {
  return trace.events.flatMap(event => (event.event === 'step' && event.place === 'postgres' ? [event] : []));
}

function costOfTape({ execution }: Judged): number {
  return execution.spent;
}

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length < 2) return [[...items]];
  return items.flatMap((item, i) => permutations(items.toSpliced(i, 1)).map(rest => [item, ...rest]));
}
