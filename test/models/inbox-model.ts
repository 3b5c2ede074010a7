/**
 * models/inbox.pml once more, as a function: what may happen next with the inbox on a store with transactions. By it the
 * stories of the verifier are checked to be paths of the model, and it is searched by itself.
 */

/** A connection of the database, from BEGIN to the end of the transaction. */
export interface Session {
  readonly worker: number;
  readonly message: number;
  /** `claimed`: what the claim says is decided by `fresh`. */
  readonly state: 'claiming' | 'claimed' | 'committing' | 'committed';
  /** The claim inserted the row; otherwise it found it, or has said nothing yet. */
  readonly fresh: boolean;
  /** Effects that are written and not committed. */
  readonly effects: number;
  /** Nobody listens any more. */
  readonly orphan: boolean;
}

export interface Worker {
  readonly message: number;
  /** Whose reply it waits for, or works with; undefined before a claim and after a transaction that failed. */
  readonly session: string | undefined;
  /** It has heard that the message is done. */
  readonly decided: boolean;
}

export interface State {
  /** By message: undefined while nobody has inserted it; the session that has, uncommitted; or done. */
  readonly rows: Readonly<Record<number, string | 'done'>>;
  /** By message, committed. */
  readonly effects: Readonly<Record<number, number>>;
  readonly acked: readonly number[];
  readonly sessions: Readonly<Record<string, Session>>;
  readonly workers: Readonly<Record<number, Worker>>;
}

export const NOTHING: State = { rows: {}, effects: {}, acked: [], sessions: {}, workers: {} };

export type Action =
  /** The broker hands a message out: the first copy, one after a failure, one beside it, or one after the ack. */
  | { readonly action: 'deliver'; readonly worker: number; readonly message: number }
  /** A worker sends its claim, on a connection that has no transaction. */
  | { readonly action: 'claim'; readonly worker: number; readonly session: string }
  | { readonly action: 'commit'; readonly session: string }
  /** The server carries out a claim or a commit. A claim waits while another session has inserted the row. */
  | { readonly action: 'carry-out'; readonly session: string }
  /** The handler's statement is carried out. */
  | { readonly action: 'effect'; readonly session: string }
  /** Who found that the row was there looks at it. */
  | { readonly action: 'look-up'; readonly session: string }
  /** The worker hears what became of its commit. */
  | { readonly action: 'hear'; readonly session: string }
  /** It will not: the connection is gone for it, and the server may not have noticed. */
  | { readonly action: 'lose'; readonly session: string }
  /** The server undoes what is not committed. */
  | { readonly action: 'undo'; readonly session: string }
  | { readonly action: 'crash'; readonly worker: number }
  | { readonly action: 'ack'; readonly worker: number }
  /** The ack does not arrive. */
  | { readonly action: 'ack-lost'; readonly worker: number }
  | { readonly action: 'nack'; readonly worker: number };

/** The state after it, or why it cannot happen. */
export function next(state: State, action: Action): State | string {
  switch (action.action) {
    case 'deliver': {
      if (state.workers[action.worker] !== undefined) return 'the worker has a message already';
      return withWorker(state, action.worker, { message: action.message, session: undefined, decided: false });
    }
    case 'crash': {
      const worker = state.workers[action.worker];
      if (worker === undefined) return 'the worker has nothing in its hand';
      return withWorker(orphaned(state, worker.session), action.worker, undefined);
    }
    case 'ack':
    case 'ack-lost': {
      const worker = state.workers[action.worker];
      if (worker?.decided !== true) return 'an ack before the worker has heard of a commit';
      const idle = withWorker(state, action.worker, undefined);
      return action.action === 'ack' ? { ...idle, acked: [...new Set([...idle.acked, worker.message])] } : idle;
    }
    case 'nack': {
      const worker = state.workers[action.worker];
      if (worker === undefined || worker.decided) return 'a nack of what is not in work';
      if (worker.session !== undefined) return 'a nack with a transaction open';
      return withWorker(state, action.worker, undefined);
    }
    case 'claim': {
      const worker = state.workers[action.worker];
      if (worker === undefined || worker.decided) return 'a claim of what is not in work';
      if (worker.session !== undefined) return 'a second claim beside an open transaction';
      if (state.sessions[action.session] !== undefined) return 'a claim in the transaction of another';
      const { message } = worker;
      const session: Session = {
        worker: action.worker,
        message,
        state: 'claiming',
        fresh: false,
        effects: 0,
        orphan: false,
      };
      return withSession(
        withWorker(state, action.worker, { ...worker, session: action.session }),
        action.session,
        session,
      );
    }
    default:
      return inSession(state, action);
  }
}

type InSession = Extract<Action, { readonly session: string }> & { readonly worker?: never };

function inSession(state: State, { action, session: name }: InSession): State | string {
  const session = state.sessions[name];
  if (session === undefined) return 'a statement outside a transaction that has claimed';
  const { message } = session;
  const row = state.rows[message];
  switch (action) {
    case 'carry-out':
      if (session.state === 'claiming') {
        if (row !== undefined && row !== 'done') return 'a claim that does not wait for the one who has claimed before';
        const claimed = withSession(state, name, { ...session, state: 'claimed', fresh: row === undefined });
        return row === undefined ? { ...claimed, rows: { ...claimed.rows, [message]: name } } : claimed;
      }
      if (session.state !== 'committing') return 'nothing was sent';
      return {
        ...withSession(state, name, session.orphan ? undefined : { ...session, state: 'committed' }),
        rows: session.fresh ? { ...state.rows, [message]: 'done' } : state.rows,
        effects: { ...state.effects, [message]: (state.effects[message] ?? 0) + session.effects },
      };
    case 'effect':
      if (session.state !== 'claimed' || !session.fresh) return 'an effect of a message that is not freshly claimed';
      return withSession(state, name, { ...session, effects: session.effects + 1 });
    case 'look-up':
      if (session.state !== 'claimed' || session.fresh) return 'a look at a row that was claimed freshly';
      return state;
    case 'commit':
      if (session.state !== 'claimed' || session.orphan) return 'a commit without a claim';
      if (session.fresh && session.effects === 0) return 'a commit of a claim without its effect';
      return withSession(state, name, { ...session, state: 'committing' });
    case 'hear': {
      if (session.state !== 'committed') return 'a reply to a commit that was not carried out';
      const worker = { message, session: undefined, decided: true };
      return withWorker(withSession(state, name, undefined), session.worker, worker);
    }
    case 'lose':
      if (session.orphan) return 'lost a second time';
      return withWorker(orphaned(state, name), session.worker, { message, session: undefined, decided: false });
    case 'undo': {
      if (session.state === 'committed') return 'committed, and undone';
      const { [message]: own, ...rows } = state.rows;
      const undone = withSession({ ...state, rows: own === name ? rows : state.rows }, name, undefined);
      return session.orphan
        ? undone
        : withWorker(undone, session.worker, { message, session: undefined, decided: false });
    }
    default:
      return `not an action of a session: ${action}`;
  }
}

function withWorker(state: State, number: number, worker: Worker | undefined): State {
  const { [number]: _, ...workers } = state.workers;
  return { ...state, workers: worker === undefined ? workers : { ...workers, [number]: worker } };
}

function withSession(state: State, name: string, session: Session | undefined): State {
  const { [name]: _, ...sessions } = state.sessions;
  return { ...state, sessions: session === undefined ? sessions : { ...sessions, [name]: session } };
}

/** The server goes on with what it was sent; what is over needs nobody. */
function orphaned(state: State, name: string | undefined): State {
  const session = name === undefined ? undefined : state.sessions[name];
  if (name === undefined || session === undefined) return state;
  return withSession(state, name, session.state === 'committed' ? undefined : { ...session, orphan: true });
}

/** What is wrong with a state, in words: what `never` says in the model. */
export function wrong({ effects, acked }: State): string | undefined {
  for (const [message, count] of Object.entries(effects))
    if (count > 1) return `${count} effects of message ${message}`;
  for (const message of acked)
    if ((effects[message] ?? 0) === 0) return `message ${message} is acked without its effect`;
  return undefined;
}

/** What is wrong with a state in which everything is over. */
export function wrongAtEnd(state: State, messages: readonly number[]): string | undefined {
  const [left] = Object.keys(state.sessions);
  if (left !== undefined) return `the transaction of ${left} is open`;
  const [working] = Object.keys(state.workers);
  if (working !== undefined) return `worker ${working} is at work`;
  for (const message of messages) {
    if (!state.acked.includes(message)) return `message ${message} is not acked`;
    if (state.effects[message] !== 1) return `message ${message} has ${state.effects[message] ?? 0} effects`;
    if (state.rows[message] !== 'done') return `the row of message ${message} is not there`;
  }
  return undefined;
}
