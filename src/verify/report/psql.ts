import type { Report } from '../report.ts';
import type { TraceEvent } from '../trace.ts';
import { becauseOf } from './because.ts';
import { messageName } from './lines.ts';
import { type Deed, readingOf, type Step } from './reading.ts';
import { clean } from './text.ts';
import { verdictOf } from './verdict.ts';

/** What is typed into one psql. */
interface Session {
  readonly who: number;
  connection: number;
  /** The connection that it plays is there: the next one needs a psql of its own, or `\c` after its end. */
  open: boolean;
  inTransaction: boolean;
  readonly lines: string[];
}

/** The interleaving for two psql, to be pasted turn by turn: a bug that can be typed by hand convinces everybody. */
export function psql(report: Report): string {
  const [conviction] = report.convictions;
  if (conviction === undefined) return `-- ${verdictOf(report)}\n`;
  const { plan } = report;
  const { because, fix } = becauseOf(conviction, plan);
  const sessions = new Sessions(new Map(readingOf(conviction, plan).deeds.map(deed => [deed.at, deed])));
  conviction.trace.events.forEach((event, at) => {
    sessions.play(event, at, event.event === 'deliver' ? event.messages.map(n => messageName(plan, n)).join(', ') : '');
  });
  const setup = [plan.schema, plan.seed]
    .map(sql => sql.trim())
    .filter(sql => sql !== '')
    .map(terminated);
  return [
    `-- ${verdictOf(report)}`,
    '-- Open as many psql as there are sessions below, on one empty database. Paste turn by turn, in the order of the numbers.',
    '',
    '-- setup, in any of them',
    ...(setup.length === 0 ? ['-- (no schema was given)'] : setup),
    ...sessions.all.flatMap(({ session, name }) => ['', `-- ${name} (consumer ${session.who})`, ...session.lines]),
    '',
    ...conviction.deviation.differences.map(({ text }) => `-- result: ${clean(text)}`),
    `-- because: ${clean(because)}`,
    `-- fix: ${clean(fix)}`,
    '',
  ].join('\n');
}

class Sessions {
  readonly #deeds: ReadonlyMap<number, Deed>;
  readonly #sessions: Session[] = [];
  /** Where what is no SQL is noted. */
  readonly #current = new Map<number, Session>();

  constructor(deeds: ReadonlyMap<number, Deed>) {
    this.#deeds = deeds;
  }

  get all(): readonly { readonly session: Session; readonly name: string }[] {
    const count = new Map<number, number>();
    return this.#sessions
      .toSorted((a, b) => a.who - b.who)
      .map(session => {
        const n = count.get(session.who) ?? 0;
        count.set(session.who, n + 1);
        return { session, name: `session ${session.who}${n === 0 ? '' : String.fromCharCode(97 + n)}` };
      });
  }

  play(event: TraceEvent, at: number, messages: string): void {
    const turn = `-- turn ${at + 1}`;
    const { who } = event;
    switch (event.event) {
      case 'deliver':
        this.#note(
          who,
          `${turn}: the broker delivers ${messages}${event.because === undefined ? '' : ` again: ${clean(event.because)}`}${event.ahead ? '; the clock of its process is an hour ahead' : ''}${event.evicted ? '; the records of what was done are gone by now' : ''}`,
        );
        return;
      case 'exited':
        this.#note(who, `${turn}: its process ended`);
        this.#disconnect(who);
        return;
      case 'unblocked':
        this.#note(who, `${turn}: its statement got the lock → ${clean(event.result)}`);
        return;
      case 'land': {
        if (event.place !== 'postgres') {
          this.#note(who, `${turn}: lands now: ${event.place} ${clean(event.text)} → ${clean(event.result)}`);
          return;
        }
        const session = this.#sessions.findLast(one => one.who === who && one.open) ?? this.#session(who, 0);
        session.lines.push(
          `${turn}: what was on its way lands now → ${clean(event.result)}`,
          terminated(clean(event.text)),
          '\\c',
        );
        session.open = false;
        session.inTransaction = false;
        return;
      }
      case 'step':
        this.#step(event, at, turn);
    }
  }

  #step(step: Step, at: number, turn: string): void {
    const { who, place, fault } = step;
    const text = clean(step.text);
    const result = step.result === undefined || step.result === '' ? '' : ` → ${clean(step.result)}`;
    if (place !== 'postgres') {
      const done = {
        crash: ' (killed before it)',
        reset: ' (lost)',
        'reply-lost': ' (executed, reply lost)',
        'in-flight': ' (killed; it is still on its way)',
      };
      this.#note(
        who,
        `${turn}: ${place === 'broker' ? '' : `${place} `}${text}${result}${fault === undefined ? '' : done[fault]}`,
      );
      if (fault === 'crash' || fault === 'in-flight') this.#disconnect(who);
      return;
    }
    const session = this.#session(who, step.connection);
    const deed = this.#deeds.get(at);
    if (deed?.inTransaction === true && !session.inTransaction) {
      session.lines.push(
        ...(step.inTransaction === undefined
          ? ['-- The trace does not show where the transaction began: here, or after a statement or two.']
          : []),
        'BEGIN;',
      );
      session.inTransaction = true;
    }
    switch (fault) {
      case undefined:
        session.lines.push(
          step.paused
            ? `${turn}: has read, and stands still before it writes; by hand only the same moment does it`
            : step.waited
              ? `${turn}: waits for a lock from here on`
              : `${turn}${result}`,
          terminated(text),
        );
        if (deed?.statement.kind === 'commit' || deed?.statement.kind === 'rollback') session.inTransaction = false;
        return;
      case 'reply-lost':
        session.lines.push(
          `${turn}${result}, and the connection is cut before the client hears of it`,
          terminated(text),
          '\\c',
        );
        this.#closed(session);
        return;
      case 'reset':
        session.lines.push(`${turn}: the connection is cut before this is executed: ${text}`, '\\c');
        this.#closed(session);
        return;
      case 'crash':
        session.lines.push(`${turn}: the process is killed before this is sent: ${text}`);
        this.#disconnect(who);
        return;
      case 'in-flight':
        session.lines.push(`${turn}: the process is killed; this is still on its way: ${text}`);
        this.#disconnect(who, session);
    }
  }

  #closed(session: Session): void {
    session.open = false;
    session.inTransaction = false;
  }

  /** The process of a consumer is dead; `but` is the connection on which something is still on its way. */
  #disconnect(who: number, but?: Session): void {
    for (const session of this.#sessions) {
      if (session.who !== who || !session.open || session === but) continue;
      session.lines.push('\\c');
      this.#closed(session);
    }
    // Its number may come again in the next process.
    if (but !== undefined) but.connection = 0;
  }

  #session(who: number, connection: number): Session {
    const mine = this.#sessions.filter(session => session.who === who);
    let session = mine.find(one => one.open && one.connection === connection) ?? mine.find(one => !one.open);
    if (session === undefined) {
      session = { who, connection, open: true, inTransaction: false, lines: [] };
      this.#sessions.push(session);
    }
    session.connection = connection;
    session.open = true;
    this.#current.set(who, session);
    for (const note of this.#early.get(who) ?? []) session.lines.push(note);
    this.#early.delete(who);
    return session;
  }

  /** Said of a consumer that has no session yet. */
  readonly #early = new Map<number, string[]>();

  #note(who: number, note: string): void {
    const session = this.#current.get(who);
    if (session !== undefined) session.lines.push(note);
    else this.#early.set(who, [...(this.#early.get(who) ?? []), note]);
  }
}

function terminated(sql: string): string {
  return /;\s*$/.test(sql) ? sql : `${sql};`;
}
