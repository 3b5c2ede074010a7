import { NevertwiceError } from '../../../errors.ts';
import type { TransactionGuard } from '../../sql/guard.ts';
import type { PgClientLike } from './pg-connection.ts';
import { inTurn } from './turns.ts';

const REFUSED: ReadonlySet<PropertyKey> = new Set(['release', 'end', 'connect']);

/**
 * The user's own client, watched: `query` goes through the guard, and what would give the connection away is refused.
 * Everything else is the client's own, so ORMs that look at prototypes or internals find what they expect.
 */
export function guardedClient<C extends PgClientLike>(client: C, guard: TransactionGuard): C {
  const query = (...args: unknown[]) => {
    if (isSubmittable(args[0])) {
      // pg-cursor and pg-query-stream read rows as they go: a cursor by another name, and no promise to wait for.
      guard.admit(`DECLARE; ${textOf(args[0])}`);
      return (client.query as (...a: unknown[]) => unknown).apply(client, args);
    }
    const text = textOf(args[0]);
    const last = args[args.length - 1];
    if (typeof last === 'function') return withCallback(client, guard, text, args.slice(0, -1), last as Callback);
    const inside = typeof args[0] === 'object' ? (args[0] as { callback?: Callback } | null)?.callback : undefined;
    if (typeof inside === 'function') {
      const config = { ...(args[0] as object), callback: undefined };
      return withCallback(client, guard, text, [config, ...args.slice(1)], inside);
    }
    // A lone statement is one write anyway; the rest of a burst waits for the end of the tick.
    if (guard.inFlight > 0) corkUntilNextTick(client);
    return guard.track(text, () => send(client, args));
  };
  return new Proxy(client, {
    get(target, property) {
      if (property === 'query') return query;
      if (REFUSED.has(property)) {
        return () => {
          throw new NevertwiceError(
            'NT_TX_FORBIDDEN',
            `a handler may not call ${String(property)}() on the transaction's client`,
          );
        };
      }
      const value = Reflect.get(target, property, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

interface Corkable {
  readonly connection?: { readonly stream?: { cork?(): void; uncork?(): void } };
}
/** How many statements a corked socket holds back. */
const corked = new WeakMap<object, number>();

// A write costs 15 µs and more, but the server is idle until it comes: all of a batch in one made overlap slower.
const STATEMENTS_A_WRITE = 16;

/**
 * Statements that are sent in one tick leave in a few writes instead of one each: BEGIN with the claim, and what
 * overlapping handlers send. Only where the client pipelines; where its socket cannot be reached it does nothing.
 */
export function corkUntilNextTick(client: PgClientLike): void {
  if (client.pipeline !== true) return;
  const stream = (client as Corkable).connection?.stream;
  if (stream?.cork === undefined || stream.uncork === undefined) return;
  const held = corked.get(stream);
  if (held !== undefined) {
    corked.set(stream, (held + 1) % STATEMENTS_A_WRITE);
    if (held + 1 < STATEMENTS_A_WRITE) return;
    stream.uncork();
    stream.cork();
    return;
  }
  corked.set(stream, 0);
  stream.cork();
  // After the promise callbacks of this tick, which is where handlers send their next statements.
  process.nextTick(() => {
    corked.delete(stream);
    stream.uncork?.();
  });
}

type Callback = (error: unknown, result?: unknown) => void;

function withCallback(
  client: PgClientLike,
  guard: TransactionGuard,
  text: string,
  args: readonly unknown[],
  done: Callback,
): void {
  guard
    .track(text, () => send(client, args))
    .then(
      result => done(null, result),
      error => done(error),
    );
}

function send(client: PgClientLike, args: readonly unknown[]): Promise<unknown> {
  return inTurn(client, () => (client.query as (...a: unknown[]) => Promise<unknown>).apply(client, [...args]));
}

function isSubmittable(config: unknown): boolean {
  return typeof config === 'object' && config !== null && typeof (config as { submit?: unknown }).submit === 'function';
}

function textOf(config: unknown): string {
  if (typeof config === 'string') return config;
  const { text } = (config ?? {}) as { text?: unknown };
  return typeof text === 'string' ? text : '';
}
