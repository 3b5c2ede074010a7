import { Chain, Link } from './chain.ts';

class Listener extends Link {
  readonly call: () => void;

  constructor(call: () => void) {
    super();
    this.call = call;
  }
}

const listeners = new WeakMap<AbortSignal, Chain<Listener>>();

/**
 * Calls `listener` once when `signal` aborts, at once when it has; the result takes the listener off again. One real
 * listener a signal: an event target keeps a weak reference for each, and with one per transaction these were the most
 * of what a run left to the garbage collector.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  if (signal.aborted) {
    listener();
    return () => undefined;
  }
  let all = listeners.get(signal);
  if (all === undefined) {
    const every = new Chain<Listener>();
    signal.addEventListener('abort', () => callAll(every), { once: true });
    listeners.set(signal, every);
    all = every;
  }
  const chain = all;
  // Of its own, so that one function given twice is called twice and taken off once.
  const own = new Listener(listener);
  chain.push(own);
  return () => chain.remove(own);
}

/** One that was taken off by another that was called before it is not called. */
function callAll(listeners: Chain<Listener>): void {
  for (let next = listeners.first; next !== undefined; next = listeners.first) {
    listeners.remove(next);
    next.call();
  }
}

/**
 * A signal that aborts with the first of `signals`, and a way to let go of them. Reading it costs nothing, unlike one of
 * `AbortSignal.any`, which looks at its sources each time.
 */
export function anyOf(signals: readonly AbortSignal[]): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const offs = signals.map(signal => onAbort(signal, () => controller.abort(signal.reason)));
  return { signal: controller.signal, release: () => offs.forEach(off => void off()) };
}
