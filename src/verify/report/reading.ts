import type { Plan } from '../plan.ts';
import type { Conviction } from '../report.ts';
import type { Fault, Trace, TraceEvent } from '../trace.ts';
import { type Statement, shapeOf, statementOf } from './statement.ts';

export type Step = Extract<TraceEvent, { event: 'step' }> & {
  /** A transaction was open on its connection. Where a trace does not say so, it is inferred. */
  readonly inTransaction?: boolean | undefined;
};

/** One request of the handler, with what became of it. */
export interface Deed {
  /** The event with which it began. */
  readonly at: number;
  readonly run: Run;
  readonly step: Step;
  readonly statement: Statement;
  readonly result: string | undefined;
  readonly failed: boolean;
  readonly fault: Fault | undefined;
  /** The event with which the server carried it out; undefined when it never did. */
  readonly doneAt: number | undefined;
  /** It landed after its consumer had died. */
  readonly landed: boolean;
  /** The event from which on it counted for everybody; undefined when it never did. */
  durableAt: number | undefined;
  /** It was, or would have been, committed together with others. */
  inTransaction: boolean;
}

/** What one consumer did for one delivery. */
export interface Run {
  readonly who: number;
  readonly messages: readonly number[];
  readonly attempt: number;
  readonly at: number;
  readonly deeds: Deed[];
  /** The event after which it did nothing more; of the last one: after all. */
  endsAt: number;
  died: boolean;
}

/** A conviction as the rules look at it. */
export interface Case {
  readonly conviction: Conviction;
  readonly plan: Plan;
  readonly events: Trace['events'];
  readonly runs: readonly Run[];
  readonly deeds: readonly Deed[];
  /** Tables in which something is wrong. */
  readonly differing: ReadonlySet<string>;
  /** It records that a message was seen. */
  isMark(deed: Deed): boolean;
  /** It is what went wrong: done twice, or not at all. */
  isEffect(deed: Deed): boolean;
  /** It writes where something is wrong. */
  touches(deed: Deed): boolean;
}

const SQLSTATE = /^(?:[0-9A-Z]{5}|SQLITE_[A-Z_]+): /;

/** The events, gathered into what each delivery did. */
export function readingOf(conviction: Conviction, plan: Plan): Case {
  const { events } = conviction.trace;
  const runs: Run[] = [];
  const current = new Map<number, Run>();
  events.forEach((event, at) => {
    if (event.event === 'deliver') {
      const before = current.get(event.who);
      if (before !== undefined) before.endsAt = at;
      const run: Run = {
        who: event.who,
        messages: event.messages,
        attempt: event.attempt,
        at,
        deeds: [],
        endsAt: events.length,
        died: false,
      };
      runs.push(run);
      current.set(event.who, run);
      return;
    }
    const run = current.get(event.who);
    if (run === undefined) return;
    if (event.event === 'exited') end(run, at);
    if (event.event !== 'step') return;
    run.deeds.push(deedOf(events, run, event, at));
    if (event.fault === 'crash' || event.fault === 'in-flight') end(run, at);
  });
  const deeds = runs.flatMap(run => run.deeds).sort((a, b) => a.at - b.at);
  settle(runs);
  const differing = new Set(conviction.deviation.differences.map(({ table }) => differingPlace(table)));
  const { marks, dual } = marksOf(deeds, differing, plan);
  const isMark = (deed: Deed) =>
    keysOf(deed).some(key => marks.has(key)) && !/^(?:DELETE|DEL|UNLINK)$/.test(deed.statement.verb);
  const effects = (deed: Deed) => keysOf(deed).filter(key => !marks.has(key) || dual.has(key));
  const direct = deeds.some(deed => effects(deed).some(key => differs(key, differing)));
  const isEffect = (deed: Deed) => effects(deed).some(key => !direct || differs(key, differing));
  const touches = (deed: Deed) => effects(deed).some(key => differs(key, differing));
  return { conviction, plan, events, runs, deeds, differing, isMark, isEffect, touches };
}

/** `http /metrics` and `redis database 1` are of one place. */
function differingPlace(table: string): string {
  return /^(?:http|redis)(?= |$)/.exec(table)?.[0] ?? table;
}

function differs(key: string, differing: ReadonlySet<string>): boolean {
  return differing.has(key.startsWith('redis ') ? 'redis' : key.slice(key.indexOf(' ') + 1));
}

function end(run: Run, at: number): void {
  run.endsAt = at;
  run.died = true;
}

export function isWrite({ statement }: Deed): boolean {
  return statement.kind === 'write' || statement.kind === 'call' || statement.kind === 'publish';
}

function deedOf(events: Trace['events'], run: Run, step: Step, at: number): Deed {
  const statement = statementOf(step.place, step.text);
  const later = step.waited || step.fault === 'in-flight' ? laterOf(events, step, at) : undefined;
  const result = later?.result ?? step.result;
  const failed = step.failed || (later !== undefined && SQLSTATE.test(later.result));
  const doneAt = later?.at ?? (step.result === undefined ? undefined : at);
  return {
    at,
    run,
    step,
    statement,
    result,
    failed,
    fault: step.fault,
    doneAt,
    landed: later?.landed ?? false,
    durableAt: undefined,
    inTransaction: false,
  };
}

/** How a statement went on that waited for a lock or was on its way when its consumer died. */
function laterOf(
  events: Trace['events'],
  step: Step,
  from: number,
): { at: number; result: string; landed: boolean } | undefined {
  const at = events.findIndex(
    (event, i) =>
      i > from &&
      (event.event === 'unblocked' || event.event === 'land') &&
      event.who === step.who &&
      event.text === step.text,
  );
  const event = events[at];
  return event?.event === 'unblocked' || event?.event === 'land'
    ? { at, result: event.result, landed: event.event === 'land' }
    : undefined;
}

/** What is wrapped in a transaction counts when that is committed, everything else at once. */
function settle(runs: readonly Run[]): void {
  const wrapped = new Set<string>();
  for (const run of runs) {
    for (const deed of run.deeds) {
      if (deed.statement.kind !== 'read' && endOf(run, deed) !== undefined) wrapped.add(shapeOf(deed.step.text));
    }
  }
  for (const run of runs) {
    for (const deed of run.deeds) {
      const { kind } = deed.statement;
      if (deed.doneAt === undefined || deed.failed || kind === 'rollback') {
        deed.inTransaction = deed.step.inTransaction ?? wrapped.has(shapeOf(deed.step.text));
        continue;
      }
      const closing = kind === 'commit' || deed.statement.commits ? undefined : endOf(run, deed);
      deed.inTransaction = deed.step.inTransaction ?? (closing !== undefined || wrapped.has(shapeOf(deed.step.text)));
      if (!deed.inTransaction || kind === 'commit' || deed.statement.commits)
        deed.durableAt = took(deed) ? deed.doneAt : undefined;
      else if (closing?.statement.kind === 'commit' && took(closing)) deed.durableAt = closing.doneAt;
    }
  }
}

/** The COMMIT or ROLLBACK that ends the transaction that it may be in. */
function endOf(run: Run, deed: Deed): Deed | undefined {
  if (deed.step.place !== 'postgres' && deed.step.place !== 'sqlite') return undefined;
  const { place, connection } = deed.step;
  return run.deeds.find(
    other =>
      other.at > deed.at &&
      other.step.place === place &&
      other.step.connection === connection &&
      (other.statement.kind === 'commit' || other.statement.kind === 'rollback'),
  );
}

/** The server did it, and it changed something. PostgreSQL answers the COMMIT of a failed transaction with ROLLBACK. */
export function took(deed: Deed): boolean {
  if (deed.doneAt === undefined || deed.failed) return false;
  return !/^(?:ROLLBACK|(?:INSERT(?: 0)?|UPDATE|DELETE|MERGE) 0|\(?nil\)?|null|OK 0|0)$/i.test(deed.result ?? '');
}

/** A look for a mark that found one, or a mark that was there already. */
export function foundMark(deed: Deed): boolean {
  if (deed.doneAt === undefined) return false;
  if (deed.statement.kind === 'read')
    return !deed.failed && !/^(?:SELECT 0|\(?nil\)?|null|0|\[\]|)$/i.test(deed.result ?? '');
  return /^(?:23505|SQLITE_CONSTRAINT_(?:UNIQUE|PRIMARYKEY)|INSERT(?: 0)? 0$|UPDATE 0$|\(?nil\)?$|null$|0$)/i.test(
    deed.result ?? '',
  );
}

/** What it writes to, with the place where that is. */
function keysOf(deed: Deed): readonly string[] {
  return isWrite(deed) ? deed.statement.targets.map(target => `${deed.step.place} ${target}`) : [];
}

/**
 * Where the handler records what it has seen: tables that are right, or that it looks into before it inserts. Those in `dual`
 * are all that it writes, and hold the effect as well.
 */
function marksOf(
  deeds: readonly Deed[],
  differing: ReadonlySet<string>,
  plan: Plan,
): { readonly marks: ReadonlySet<string>; readonly dual: ReadonlySet<string> } {
  const marks = new Set<string>();
  const dual = new Set<string>();
  const ids = plan.messages.flatMap(message => (message.id === undefined ? [] : [String(message.id)]));
  for (const deed of deeds) {
    const { statement, step } = deed;
    const { verb } = statement;
    const named = ids.some(id => step.text.includes(id));
    for (const key of keysOf(deed)) {
      const target = key.slice(key.indexOf(' ') + 1);
      const isRight = !differs(key, differing);
      if (step.place === 'redis') {
        const sets = /^(?:SET|SETNX|SETEX|PSETEX|GETSET|SADD|HSET|HSETNX|ZADD|PFADD|EVAL|EVALSHA)$/.test(verb);
        if (sets && (isRight || statement.tolerant || named)) marks.add(key);
        continue;
      }
      if (statement.kind !== 'write' || target === 'http' || plan.ignore.includes(target)) continue;
      const alone = differing.size === 1 && !isRight;
      const looked = deeds.some(other => other.statement.kind === 'read' && other.statement.target === target);
      if (
        verb === 'INSERT' &&
        target === statement.target &&
        (looked || (statement.tolerant && !alone) || (isRight && named))
      ) {
        marks.add(key);
        if (alone) dual.add(key);
      } else if (verb === 'UPDATE' && isRight && (looked || named)) marks.add(key);
    }
  }
  return { marks, dual };
}

/** As people write them. */
const PLACES: Readonly<Record<Step['place'], string>> = {
  postgres: 'PostgreSQL',
  redis: 'Redis',
  http: 'HTTP',
  sqlite: 'SQLite',
  broker: 'the broker',
};

export function placeName({ step }: Deed): string {
  return PLACES[step.place];
}

/** How sentences call it: by the consumer where two took part, by the number of the delivery where one did both. */
export function nameOf(run: Run, beside?: Run): string {
  return beside !== undefined && beside.who === run.who ? `delivery ${run.attempt}` : `consumer ${run.who}`;
}
