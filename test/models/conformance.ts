import type { Trace, TraceEvent } from '../../src/verify/trace.ts';
import { type Action, NOTHING, next, type State, wrong, wrongAtEnd } from './inbox-model.ts';

/** Whether an execution is a path of the model; where it is not, the first event that the model does not have. */
export type Conforms =
  | { readonly path: true; readonly actions: readonly Action[] }
  | { readonly path: false; readonly at: number; readonly why: string };

/**
 * Reads the story of a handler on this library's `postgresStore`, one message a delivery, as a path of the inbox model. Told
 * is what was asked for; what the server answered to a claim is not, so that the model says it, and the statements behind
 * it must agree.
 */
export function isPath({ events }: Pick<Trace, 'events'>): Conforms {
  const reader = new Reader();
  for (const [at, event] of events.entries()) {
    const why = reader.read(event);
    if (why !== undefined) return { path: false, at, why };
  }
  const why = wrongAtEnd(reader.state, reader.delivered);
  return why === undefined ? { path: true, actions: reader.actions } : { path: false, at: events.length, why };
}

type Step = Extract<TraceEvent, { readonly event: 'step' }>;
type Kind = 'claim' | 'effect' | 'look-up' | 'commit' | 'rollback';

/** The statements of the library, by their text; everything else is the handler's. */
export function kindOf(text: string): Kind {
  if (/INSERT INTO "\w+"\."inbox"/.test(text)) return 'claim';
  if (/SELECT encode\(key, 'hex'\)[\s\S]*FROM "\w+"\."inbox"/.test(text)) return 'look-up';
  if (/(?:^|; *)COMMIT\b/.test(text)) return 'commit';
  if (/^ROLLBACK$/.test(text)) return 'rollback';
  return 'effect';
}

/** The answer to the COMMIT of a transaction that had failed. */
function undone(kind: Kind, result: string): boolean {
  return kind === 'commit' && /\bROLLBACK$/.test(result);
}

class Reader {
  state: State = NOTHING;
  readonly actions: Action[] = [];
  readonly #delivered = new Set<number>();
  /** Statements that were sent and are not carried out yet, by session. */
  readonly #pending = new Map<string, { readonly text: string; readonly kind: Kind }>();
  /** Transactions so far: a connection has one after the other. */
  #transactions = 0;
  readonly #current = new Map<string, string>();
  #why: string | undefined;

  get delivered(): readonly number[] {
    return [...this.#delivered];
  }

  /** Why the event cannot be; undefined when it can. */
  read(event: TraceEvent): string | undefined {
    switch (event.event) {
      case 'deliver':
        if (event.messages.length !== 1) return 'the model has one message a delivery';
        this.#delivered.add(event.messages[0]!);
        this.#do({ action: 'deliver', worker: event.who, message: event.messages[0]! });
        break;
      case 'exited':
        this.#crash(event.who, undefined);
        break;
      case 'step':
        if (event.place === 'broker') this.#broker(event);
        else if (event.place === 'postgres') this.#postgres(event);
        else return `the model has no ${event.place}`;
        break;
      case 'land':
      case 'unblocked':
        this.#arrived(event);
        break;
    }
    return this.#why;
  }

  #do(action: Action): void {
    if (this.#why !== undefined) return;
    const after = next(this.state, action);
    if (typeof after === 'string') this.#why = `${JSON.stringify(action)}: ${after}`;
    else {
      this.state = after;
      this.actions.push(action);
      this.#why = wrong(after);
    }
  }

  #broker({ who, text, fault }: Step): void {
    const refused = /^nack\b/.test(text);
    if (!refused && text !== 'ack') this.#why = `the model has no ${text}`;
    else if (fault === 'crash') this.#crash(who, undefined);
    else if (refused) this.#do({ action: 'nack', worker: who });
    else this.#do({ action: fault === undefined ? 'ack' : 'ack-lost', worker: who });
  }

  #postgres(step: Step): void {
    const { who, text, fault, result, failed } = step;
    const kind = kindOf(text);
    const connection = `${who}/${step.connection}`;
    // Nobody has seen it but its sender.
    if (fault === 'crash') {
      this.#crash(who, undefined);
      return;
    }
    if (kind === 'claim') {
      const session = `${connection}/${++this.#transactions}`;
      this.#current.set(connection, session);
      this.#do({ action: 'claim', worker: who, session });
    }
    const session = this.#current.get(connection) ?? connection;
    if (fault === 'reset') {
      this.#undo(session);
      return;
    }
    if (kind === 'commit') this.#do({ action: 'commit', session });
    if (fault === 'in-flight') {
      this.#pending.set(session, { text, kind });
      this.#crash(who, session);
      return;
    }
    if (result === undefined) {
      this.#pending.set(session, { text, kind });
      if (fault === 'reply-lost') this.#do({ action: 'lose', session });
      return;
    }
    this.#carryOut(session, kind, failed || undone(kind, result));
    if (fault === 'reply-lost') this.#cut(session);
    else this.#hear(session, kind);
  }

  /** A statement that was on its way, or has waited, was carried out. */
  #arrived(event: Extract<TraceEvent, { readonly event: 'land' | 'unblocked' }>): void {
    const found = [...this.#pending].find(
      ([session, { text }]) => session.startsWith(`${event.who}/`) && text === event.text,
    );
    if (found === undefined) {
      this.#why = `nothing such was sent: ${event.text}`;
      return;
    }
    const [session, { kind }] = found;
    this.#pending.delete(session);
    const failed = /^[0-9A-Z]{5}: |^connection closed/.test(event.result);
    this.#carryOut(session, kind, failed || undone(kind, event.result));
    // Its sender is dead: when the server has answered it notices.
    if (event.event === 'land') this.#cut(session);
    else this.#hear(session, kind);
  }

  #carryOut(session: string, kind: Kind, failed: boolean): void {
    if (failed || kind === 'rollback') this.#undo(session);
    else if (kind === 'claim' || kind === 'commit') this.#do({ action: 'carry-out', session });
    else this.#do({ action: kind, session });
  }

  #hear(session: string, kind: Kind): void {
    if (kind === 'commit' && this.state.sessions[session] !== undefined) this.#do({ action: 'hear', session });
  }

  /** The connection is cut: the server lets go of what is not committed. */
  #cut(session: string): void {
    const state = this.state.sessions[session];
    if (state === undefined) return;
    if (state.state === 'committed') this.#do({ action: 'lose', session });
    else this.#do({ action: 'undo', session });
  }

  #undo(session: string): void {
    if (this.state.sessions[session] !== undefined) this.#do({ action: 'undo', session });
  }

  /** What a dead worker has sent is still on its way where it is in flight, or waits for a lock; the rest is cut. */
  #crash(who: number, flying: string | undefined): void {
    this.#do({ action: 'crash', worker: who });
    for (const [name, { worker }] of Object.entries(this.state.sessions)) {
      if (worker === who && name !== flying && !this.#pending.has(name)) this.#undo(name);
    }
  }
}
