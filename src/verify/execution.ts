import { BrokerDesk } from './broker-desk.ts';
import type { BrokerRules } from './brokers.ts';
import type { Held, Place, Reply } from './gate.ts';
import type { Host } from './hosts/host.ts';
import { Locks, pause, type Waiting, waitFor } from './locks.ts';
import { type Copy, Mailbox } from './mailbox.ts';
import { nameless } from './nameless.ts';
import type { VerifyMessage } from './options.ts';
import { type Cost, costOf, type Option, type Player } from './tape.ts';
import type { Fault, Trace, TraceEvent } from './trace.ts';
import type { LockingPlace, Pausing, Row } from './world.ts';

/** What an execution is played on. */
export interface Stage {
  readonly messages: readonly VerifyMessage[];
  /** What is other in a message that its producer has sent again; undefined where nothing is said of that. */
  readonly resent: VerifyMessage | undefined;
  /** Which of them travel together. */
  readonly deliveries: readonly (readonly number[])[];
  readonly rules: BrokerRules;
  readonly manualAck: boolean;
  readonly thinkMs: number;
  /** Consumers at most. */
  readonly consumers: number;
  readonly locks: LockingPlace | undefined;
  /** How long a statement may wait for a lock before it counts as waiting: longer than its own limit, where it has one. */
  readonly patienceMs: number;
  /** A consumer that has done nothing yet. */
  take(): Promise<Host>;
  /** Every crash is a SIGKILL; otherwise only the one that is an execution's whole trouble. */
  readonly killAlways: boolean;
  /** Lets leases run out; undefined where the handler has none. */
  readonly expire: (() => Promise<void>) | undefined;
  /** Lets the records of what was done be gone; undefined where nothing is said of that. */
  readonly evict: (() => Promise<void>) | undefined;
  /** Lets statements stand still; undefined where the handler has none that reads and writes. */
  readonly pausing: Pausing | undefined;
  /** The handler reads the clock of its process. */
  readonly clocks: boolean;
  /** Faults are offered at all; without them an execution is a plain delivery. */
  readonly faults: boolean;
}

/** How an execution ended, before anybody looks at what it left behind. */
export type Ending =
  | { readonly ending: 'done' }
  /** It was delivered over and over, and the handler failed each time. */
  | { readonly ending: 'poisoned'; readonly error: string }
  /** Nobody acked it, although no handler failed. */
  | { readonly ending: 'stuck'; readonly why: string }
  /** The handler waits for something that cannot be seen. */
  | { readonly ending: 'silent'; readonly why: string };

export interface Execution {
  readonly ending: Ending;
  readonly trace: Trace;
  readonly published: readonly Row[];
  /** Consumers that are as they were at their start, but for what they remember. */
  readonly left: readonly Host[];
  readonly ungated: ReadonlySet<string>;
  readonly readsClock: boolean;
  /** Crashes, cut connections, copies and switches, all together. */
  readonly spent: number;
}

/** The errors with which a lock_timeout or a statement_timeout of the handler's own ends a wait. */
const OWN_LIMIT = /^(?:55P03|57014)\b/;

/**
 * A statement that was taken for one that waits for ever ended by a limit of its own, at a moment that nobody chose. Played
 * again, such waits must be waited out before anything else happens.
 */
export class ShortPatience extends Error {
  readonly waitedMs: number;

  constructor(waitedMs: number) {
    super('a statement gave up waiting for a lock');
    this.waitedMs = waitedMs;
  }
}

/** Asked for so often, it is a loop that waits for somebody else. */
const LOOPS = 2;
/** And when there is nobody else, it will not end. */
const ENDLESS = 30;

/** More often than this no message comes without a new fault. */
const DELIVERIES = 5;
/** So many requests in a row find a server that has gone away still away: enough for a `catch` and for most loops. */
const AWAY_FOR = 4;
/** As long PostgreSQL needs to break a deadlock, and some more. */
const LOCKED_FOR_MS = 4_000;

/** More than any lease, and less than what a message is kept for. */
const AHEAD_MS = 3_600_000;

interface Slot {
  readonly who: number;
  /** Its clock is so far ahead of the others'. */
  aheadMs: number;
  host: Host | undefined;
  copy: Copy | undefined;
  waiting: Waiting[];
  /** Where the connection was cut in the last request. */
  readonly broken: Set<Place>;
  /** That server is still away for so many requests; once in a delivery. */
  away: { readonly place: Place; left: number } | undefined;
  /** How often it has asked for the same since its last delivery. */
  asked: Map<string, number>;
}

/** A request whose consumer has died. */
interface Flying {
  readonly who: number;
  readonly held: Held;
  /** It was sent and waits for a lock. */
  waiting: Waiting | undefined;
}

/** One thing that can happen next. */
interface Action extends Option {
  readonly perform: () => Promise<void>;
}

type Add = (label: string, cost: Cost, perform: () => Promise<void>) => void;

/** Plays one execution: at each moment the player chooses what happens next. */
export function execute(stage: Stage, player: Player): Promise<Execution> {
  return new Play(stage, player).run();
}

class Play {
  readonly #stage: Stage;
  readonly #player: Player;
  readonly #mailbox: Mailbox;
  readonly #slots: Slot[];
  readonly #severed: Host[] = [];
  #flying: Flying[] = [];
  readonly #events: TraceEvent[] = [];
  readonly #decisionOf: number[] = [];
  readonly #locks: Locks;
  readonly #desk: BrokerDesk;
  readonly #ungated = new Set<string>();
  #readsClock = false;
  #current: Slot;

  constructor(stage: Stage, player: Player) {
    this.#stage = stage;
    this.#player = player;
    this.#mailbox = new Mailbox(stage.rules, stage.deliveries);
    this.#desk = new BrokerDesk(this.#mailbox, stage.manualAck, event => this.#say(event));
    this.#locks = new Locks(stage.locks, stage.patienceMs, () => this.#backends());
    this.#slots = Array.from({ length: stage.consumers }, (_, i) => ({
      who: i + 1,
      aheadMs: 0,
      host: undefined,
      copy: undefined,
      waiting: [],
      broken: new Set(),
      away: undefined,
      asked: new Map(),
    }));
    this.#current = this.#slots[0]!;
  }

  async run(): Promise<Execution> {
    try {
      const ending = await this.#play();
      await this.#resumeAll();
      const left = this.#slots.flatMap(slot =>
        slot.host !== undefined && !slot.host.working && slot.waiting.length === 0 ? [slot.host] : [],
      );
      const spent = this.#slots.flatMap(slot =>
        slot.host !== undefined && !left.includes(slot.host) ? [slot.host] : [],
      );
      await Promise.all(spent.map(host => host.kill([])));
      // Where it ended before they have landed: their locks must not reach the next execution.
      await Promise.all(this.#flying.map(({ held }) => held.drop().catch(() => undefined)));
      const recycled: Host[] = [];
      // Where no connection was cut, nothing can be on its way.
      for (const host of left) if (this.#player.spent.faults === 0 || (await host.settled())) recycled.push(host);
      for (const host of this.#severed) if (await host.recycle()) recycled.push(host);
      return this.#result(ending, recycled);
    } catch (error) {
      await this.#endAll();
      throw error;
    }
  }

  async #resumeAll(): Promise<void> {
    for (const slot of this.#slots)
      for (const waiting of slot.waiting) if (waiting.paused !== undefined) await this.#resume(slot, waiting);
  }

  async #endAll(): Promise<void> {
    await this.#resumeAll();
    const hosts = [...this.#slots.flatMap(slot => slot.host ?? []), ...this.#severed];
    await Promise.all(hosts.map(host => host.kill([])));
    await Promise.all(this.#flying.map(({ held }) => held.drop().catch(() => undefined)));
  }

  #result(ending: Ending, left: readonly Host[]): Execution {
    for (const { host } of this.#slots) if (host !== undefined) this.#note(host);
    return {
      ending,
      trace: { events: this.#events, decisionOf: this.#decisionOf },
      published: this.#desk.published,
      left,
      ungated: this.#ungated,
      readsClock: this.#readsClock,
      spent: costOf(this.#player.spent),
    };
  }

  #note(host: Host): void {
    for (const what of host.ungated) this.#ungated.add(what);
    this.#readsClock ||= host.readsClock;
  }

  async #play(): Promise<Ending> {
    for (;;) {
      const silent = await this.#rest();
      if (silent !== undefined) return silent;
      const limit = DELIVERIES + this.#player.decisions.filter(decision => decision.taken > 0).length;
      if (
        this.#mailbox.deliveries > limit &&
        this.#slots.every(slot => slot.host?.held.length === 0 || slot.host === undefined)
      ) {
        return this.#desk.failures > 0
          ? { ending: 'poisoned', error: this.#desk.lastError }
          : { ending: 'stuck', why: 'it is delivered again and again, and never acked' };
      }
      if (this.#slots.some(slot => [...slot.asked.values()].some(times => times > ENDLESS))) {
        return { ending: 'stuck', why: 'the handler asks for the same over and over' };
      }
      const actions = this.#actions();
      if (actions.length === 0) {
        if (this.#flying.length === 0 && !this.#slots.some(slot => slot.waiting.length > 0)) return { ending: 'done' };
        if (await this.#anyUnblocked()) continue;
        return {
          ending: 'stuck',
          why: `a statement waited for a lock for ${LOCKED_FOR_MS / 1_000} s that nobody gave up`,
        };
      }
      const ends = actions[0]!.label === 'end';
      const taken = actions.length === 1 && !ends ? 0 : this.#player.choose(actions);
      if (ends && taken === 0) return { ending: 'done' };
      await actions[taken]!.perform();
      await this.#reclassify();
    }
  }

  /** Waits until every consumer waits for a decision; what needs none is done at once. */
  async #rest(): Promise<Ending | undefined> {
    for (const slot of this.#slots) {
      for (;;) {
        const { host } = slot;
        if (host === undefined || (slot.waiting.length > 0 && host.held.length === 0)) break;
        const rest = await host.rest(this.#stage.thinkMs);
        if (rest === 'silent') {
          return {
            ending: 'silent',
            why: [...host.ungated][0] ?? 'the handler neither ends nor asks for anything that can be held',
          };
        }
        if (rest === 'exited') {
          this.#say({ event: 'exited', who: slot.who });
          this.#desk.lastError = 'the process of the handler ended';
          this.#desk.failures++;
          await this.#bury(slot, [], 'its consumer ended');
          break;
        }
        const { away } = slot;
        const vain = (away?.left ?? 0) === 0 ? undefined : host.held.find(held => held.place === away!.place);
        if (vain !== undefined) {
          away!.left--;
          await this.#reset(slot, vain);
          continue;
        }
        const refusal = host.held.find(held => held.place === 'broker' && held.quiet);
        if (refusal === undefined) break;
        host.take(refusal);
        await refusal.send();
        refusal.answer();
      }
    }
    return undefined;
  }

  #actions(): readonly Action[] {
    const current = this.#current;
    const runnable = (slot: Slot) => (slot.host?.held.length ?? 0) > 0;
    // Who asks for the same over and over waits for somebody: the others go first, and it costs them nothing.
    const loops = (slot: Slot) => (slot.asked.get(nameless(slot.host?.held[0]?.text ?? '')) ?? 0) >= LOOPS;
    const others = this.#slots.filter(slot => slot !== current);
    const landing = this.#flying.filter(flying => flying.waiting === undefined);
    const yields = loops(current) && (landing.length > 0 || others.some(slot => runnable(slot) && !loops(slot)));
    const order = yields ? [...others, current] : [current, ...others];
    const someoneRuns = this.#slots.some(runnable);
    const actions: Action[] = [];
    const add: Add = (label, cost, perform) => {
      if (this.#player.affords(cost)) actions.push({ label, cost, perform });
    };
    // Going on with a loop is what costs then, or each of its rounds would be one more execution for nothing.
    const preempting = (slot: Slot): Cost =>
      (yields ? slot === current : slot !== current && runnable(current)) ? { preemptions: 1 } : {};
    const land = () => {
      for (const flying of landing)
        add(`land ${flying.who}: ${nameless(flying.held.text)}`, {}, () => this.#land(flying));
    };
    // It may be what the loop waits for, and a server notices some time that its client is dead.
    if (yields) land();

    for (const slot of order) {
      for (const [i, held] of (slot.host?.held ?? []).entries()) {
        const cost = i === 0 ? preempting(slot) : { preemptions: 1 };
        add(`${slot.who} ${held.place}${i === 0 ? '' : ` ${i}`}: ${nameless(held.text)}`, cost, () =>
          this.#step(slot, held),
        );
        if (i === 0 && this.#stage.faults && held.backend !== undefined && this.#stage.pausing?.suits(held.text)) {
          add(`pause ${slot.who}: ${nameless(held.text)}`, { preemptions: (cost.preemptions ?? 0) + 1 }, () =>
            this.#step(slot, held, true),
          );
        }
      }
    }
    for (const copy of this.#mailbox.ready) {
      const slot = this.#slotFor(copy);
      if (slot === undefined) continue;
      // While nobody works on anything, nobody renews: whoever died with a lease has lost it by the time that a copy comes.
      const late = copy.attempt > 1 && this.#slots.every(other => other.copy === undefined);
      this.#offer(`deliver ${copy.messages}`, someoneRuns ? { preemptions: 1 } : {}, slot, () => copy, late, add);
    }
    if (!yields) land();
    for (const slot of order) {
      const paused = slot.waiting.find(one => one.paused !== undefined);
      if (paused !== undefined) add(`resume ${slot.who}`, preempting(slot), () => this.#resume(slot, paused));
    }
    const waiting = this.#flying.length > 0 || this.#slots.some(slot => slot.waiting.length > 0);
    if (actions.length === 0 && this.#mailbox.allAcked && !waiting) {
      add('end', {}, async () => undefined);
    }
    if (!this.#stage.faults || actions.length === 0) return actions;
    for (const slot of order) if (runnable(slot)) this.#faults(slot, slot === current ? {} : preempting(slot), add);
    this.#copies(add);
    return actions;
  }

  #faults(slot: Slot, also: Cost, add: Add): void {
    const host = slot.host!;
    const held = host.held[0]!;
    const at = `${slot.who}: ${nameless(held.text)}`;
    add(`crash ${at}`, { ...also, crashes: 1 }, () => this.#crash(slot, 'crash'));
    // A file has no connection that could be cut, and nothing is on its way to it.
    if (held.place === 'sqlite') return;
    const published = held.place === 'broker' && held.text.startsWith('publish');
    if (held.place === 'broker' && !published) {
      if (slot.copy !== undefined) add(`ack lost ${at}`, { ...also, faults: 1 }, () => this.#ackLost(slot, held));
      return;
    }
    // With the connection that was cut before it this is one trouble: the server is away for a while.
    if (slot.broken.has(held.place) && slot.away === undefined) {
      add(`still away ${at}`, also, () => {
        slot.away = { place: held.place, left: AWAY_FOR - 1 };
        return this.#reset(slot, held);
      });
    }
    add(`reset ${at}`, { ...also, faults: 1 }, () => this.#reset(slot, held));
    add(`reply lost ${at}`, { ...also, faults: 1 }, () => this.#replyLost(slot, held));
    if (published) return;
    add(`in flight ${at}`, { ...also, crashes: 1, inFlight: 1 }, () => this.#crash(slot, 'in-flight'));
  }

  /**
   * A delivery; a late one also when the records are gone, and to a consumer that had none yet after another one had, also with
   * a clock that is ahead.
   */
  #offer(what: string, cost: Cost, slot: Slot, copy: () => Copy, late: boolean, add: Add): void {
    add(`${what} on ${slot.who}`, cost, () => this.#deliver(slot, copy(), late));
    if (late && this.#stage.evict !== undefined) {
      add(`${what} on ${slot.who}, records gone`, { ...cost, evictions: 1 }, () =>
        this.#deliver(slot, copy(), late, true),
      );
    }
    if (!this.#stage.clocks || slot.host !== undefined || this.#events.length === 0) return;
    add(`${what} on ${slot.who}, ahead`, { ...cost, clocks: 1 }, () => {
      slot.aheadMs = AHEAD_MS;
      return this.#deliver(slot, copy(), late);
    });
  }

  #copies(add: Add): void {
    const free = this.#slots.filter(slot => slot.copy === undefined);
    const { rules } = this.#stage;
    for (const { copy, host } of this.#slots) {
      const [other] = free;
      if (!rules.overlap || copy === undefined || other === undefined || !this.#mailbox.isOut(copy)) continue;
      // Before it has done anything, a copy of it is the same as a copy after the other has done everything.
      if (host?.working !== true) continue;
      const overlapping = () => this.#mailbox.overlapping(copy);
      this.#offer(`overlap ${copy.messages}`, { duplicates: 1 }, other, overlapping, false, add);
      if (this.#stage.expire !== undefined) {
        this.#offer(`leases over, overlap ${copy.messages}`, { duplicates: 1 }, other, overlapping, true, add);
      }
    }
    if (free.length < this.#slots.length || this.#flying.length > 0) return;
    const late = [
      ...this.#mailbox.again().map(copy => ({ copy, what: 'again' })),
      ...(this.#stage.resent === undefined
        ? []
        : this.#mailbox.sentAgain().map(copy => ({ copy, what: 'sent again' }))),
    ];
    for (const { copy, what } of late) {
      for (const slot of free) {
        if (slot.host === undefined && slot !== this.#slots[1]) continue;
        this.#offer(`${what} ${copy.messages}`, { duplicates: 1 }, slot, () => copy, true, add);
      }
    }
  }

  /** The one that refused it before, or another than the one that died with it. */
  #slotFor(copy: Copy): Slot | undefined {
    const free = this.#slots.filter(slot => slot.copy === undefined);
    return free.find(slot => slot.who === copy.to) ?? free.find(slot => slot.who !== copy.not) ?? free[0];
  }

  async #deliver(slot: Slot, copy: Copy, late: boolean, evicted = false): Promise<void> {
    if (late) await this.#stage.expire?.();
    if (evicted) await this.#stage.evict!();
    slot.host ??= await this.#stage.take();
    slot.copy = copy;
    slot.asked = new Map();
    slot.broken.clear();
    slot.away = undefined;
    this.#mailbox.handOut(copy);
    this.#current = slot;
    this.#say({
      event: 'deliver',
      who: slot.who,
      messages: copy.messages,
      attempt: copy.attempt,
      because: copy.because,
      ahead: slot.aheadMs > 0,
      evicted,
    });
    slot.host.deliver(
      copy.messages.map(n => ({ ...this.#stage.messages[n]!, ...(copy.resent ? this.#stage.resent : {}) })),
      // The broker counts anew: to it, it is another message.
      copy.resent ? 1 : copy.attempt,
      slot.aheadMs,
      asked => this.#desk.held(slot, copy, asked),
    );
  }

  async #step(slot: Slot, held: Held, standing = false): Promise<void> {
    this.#current = slot;
    slot.broken.delete(held.place);
    slot.host!.take(held);
    const asked = nameless(held.text);
    slot.asked.set(asked, (slot.asked.get(asked) ?? 0) + 1);
    const backend = standing ? held.backend : undefined;
    if (backend !== undefined) await this.#stage.pausing!.pause(backend);
    const reply = held.send();
    const done = await this.#locks.orBlocked(held, reply, standing);
    this.#sayStep(slot, held, { reply: done, fault: undefined, paused: standing && done === undefined });
    if (done === undefined) {
      slot.waiting.push(waitFor(held, reply, backend));
      return;
    }
    // It had nothing to write, so it did not stand still.
    if (backend !== undefined) await this.#stage.pausing!.resume(backend);
    held.answer();
  }

  async #resume(slot: Slot, waiting: Waiting): Promise<void> {
    const backend = waiting.paused!;
    waiting.paused = undefined;
    this.#current = slot;
    await this.#stage.pausing!.resume(backend);
  }

  async #reset(slot: Slot, held: Held): Promise<void> {
    this.#current = slot;
    slot.broken.add(held.place);
    slot.host!.take(held);
    this.#sayStep(slot, held, { reply: undefined, fault: 'reset' });
    await held.cut();
  }

  async #replyLost(slot: Slot, held: Held): Promise<void> {
    this.#current = slot;
    slot.broken.add(held.place);
    slot.host!.take(held);
    const reply = held.send();
    const done = await this.#locks.orBlocked(held, reply);
    this.#sayStep(slot, held, { reply: done, fault: 'reply-lost' });
    if (done !== undefined) return held.cut();
    // It waits for a lock, and its server does not notice that nobody waits for it.
    held.abandon?.();
    this.#flying.push({ who: slot.who, held, waiting: waitFor(held, reply) });
  }

  async #crash(slot: Slot, fault: 'crash' | 'in-flight'): Promise<void> {
    const held = slot.host!.held[0]!;
    this.#sayStep(slot, held, { reply: undefined, fault });
    if (fault === 'in-flight') this.#flying.push({ who: slot.who, held, waiting: undefined });
    const kill = this.#stage.killAlways || this.#player.isLastTrouble;
    await this.#bury(slot, fault === 'in-flight' ? [held] : [], 'its consumer crashed', kill);
  }

  async #bury(slot: Slot, kept: readonly Held[], because: string, kill = true): Promise<void> {
    const { host, copy } = slot;
    // The server does not notice the death of a client while it waits for a lock.
    for (const waiting of slot.waiting) {
      if (waiting.paused !== undefined) await this.#resume(slot, waiting);
      this.#flying.push({ who: slot.who, held: waiting.held, waiting });
    }
    // Also what it had given up itself before: the server lets go of that when it gets its lock, and nobody could wait for it.
    const keeping = [...kept, ...this.#flying.filter(({ who }) => who === slot.who).map(({ held }) => held)];
    if (host !== undefined) this.#note(host);
    slot.host = undefined;
    slot.aheadMs = 0;
    slot.copy = undefined;
    slot.waiting = [];
    if (host !== undefined && !host.exited && !kill) {
      await host.sever(keeping);
      this.#severed.push(host);
    } else {
      await host?.kill(keeping);
    }
    if (copy !== undefined) this.#mailbox.requeue(copy, because, { not: slot.who });
  }

  async #ackLost(slot: Slot, held: Held): Promise<void> {
    this.#sayStep(slot, held, { reply: undefined, fault: 'reset' });
    slot.host!.take(held);
    const { copy } = slot;
    slot.copy = undefined;
    if (copy !== undefined) this.#mailbox.requeue(copy, 'its ack was lost', { not: slot.who });
    held.answer();
  }

  async #land(flying: Flying): Promise<void> {
    const reply = flying.held.land();
    const done = await this.#locks.orBlocked(flying.held, reply);
    if (done === undefined) {
      flying.waiting = waitFor(flying.held, reply);
      return;
    }
    this.#flying = this.#flying.filter(one => one !== flying);
    this.#say({ event: 'land', who: flying.who, place: flying.held.place, text: flying.held.text, result: done.text });
  }

  #backends(): readonly number[] {
    const own = this.#slots.flatMap(slot => slot.host?.proxies.flatMap(proxy => proxy.backends) ?? []);
    return [...own, ...this.#flying.flatMap(({ held }) => held.backend ?? [])];
  }

  /** After anything has happened, each statement that waited has ended or still waits; nothing in between is decided on. */
  async #reclassify(): Promise<void> {
    for (const slot of this.#slots) {
      for (const waiting of [...slot.waiting]) {
        if (waiting.paused !== undefined) continue;
        if (waiting.done === undefined && (await this.#locks.orBlocked(waiting.held, waiting.reply)) === undefined)
          continue;
        slot.waiting = slot.waiting.filter(one => one !== waiting);
        const { text } = await waiting.reply;
        if (OWN_LIMIT.test(text)) throw new ShortPatience(this.#stage.patienceMs + waiting.doneMs - waiting.sinceMs);
        this.#say({ event: 'unblocked', who: slot.who, text: waiting.held.text, result: text, paused: waiting.stood });
        waiting.held.answer();
      }
    }
    for (const flying of [...this.#flying]) {
      const { waiting, held } = flying;
      if (waiting === undefined) continue;
      if (waiting.done === undefined && (await this.#locks.orBlocked(held, waiting.reply)) === undefined) continue;
      this.#flying = this.#flying.filter(one => one !== flying);
      const { text } = await waiting.reply;
      await held.cut();
      this.#say({ event: 'land', who: flying.who, place: flying.held.place, text: flying.held.text, result: text });
    }
  }

  /** All wait for locks: the server breaks a deadlock by itself, and a limit of the handler's ends others. */
  async #anyUnblocked(): Promise<boolean> {
    const waiting = [...this.#slots.flatMap(slot => slot.waiting), ...this.#flying.flatMap(one => one.waiting ?? [])];
    // Of those on a file the first gives up: nobody else would end their waits.
    for (const { held } of waiting)
      if (held.giveUp !== undefined) {
        held.giveUp();
        break;
      }
    await Promise.race([...waiting.map(one => one.reply), pause(LOCKED_FOR_MS)]);
    const ended = waiting.some(one => one.done !== undefined);
    await this.#reclassify();
    return ended;
  }

  #sayStep(
    slot: Slot,
    held: Held,
    what: { readonly reply: Reply | undefined; readonly fault: Fault | undefined; readonly paused?: boolean },
  ): void {
    const { place, connection, text } = held;
    const { reply, fault } = what;
    this.#say({
      event: 'step',
      who: slot.who,
      place,
      connection,
      text,
      result: reply?.text,
      failed: reply?.failed ?? false,
      fault,
      waited: reply === undefined && fault === undefined,
      paused: what.paused === true,
    });
  }

  #say(event: TraceEvent): void {
    this.#events.push(event);
    this.#decisionOf.push(this.#player.decisions.length - 1);
  }
}
