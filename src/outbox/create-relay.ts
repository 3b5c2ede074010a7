import { randomUUID } from 'node:crypto';
import { NevertwiceError } from '../errors.ts';
import { Membership } from './membership.ts';
import { type RelayOptions, relaySettings } from './relay-options.ts';
import { RelayRun } from './relay-run.ts';

/** The steps of a relay, which are also its crash points. */
export interface RelayPoint {
  readonly step: 'read' | 'publish' | 'delete';
  readonly edge: 'before' | 'after';
  /** Message ids concerned; empty where they are not known yet. */
  readonly ids: readonly string[];
}

/** Counts of one relay since its start. */
export interface RelaySummary {
  /** Acknowledged by the destination; repeats count too. */
  published: number;
  /** Tries that the destination refused. */
  refused: number;
  /** Messages that were parked. */
  parked: number;
  /** Times that the destination or the store was found down. */
  outages: number;
}

export interface RelayRunOptions {
  /** Stops when it aborts, like `stop()`. */
  readonly signal?: AbortSignal;
  /** Named points that tests wait on and crash at. */
  readonly points?: { reach(at: RelayPoint): void | Promise<void> };
}

export interface Relay {
  readonly store: RelayOptions['store'];
  readonly summary: Readonly<RelaySummary>;
  /** True while signs of new rows come in from other processes; polling goes on either way. */
  readonly listening: boolean;
  /** Publishes until it is stopped. Rejects only for what no waiting helps against: NT_SCHEMA, NT_CONFIG. */
  run(options?: RelayRunOptions): Promise<RelaySummary>;
  /** Begins nothing more, and resolves when what is under way has ended; after `withinMs` that is given up and comes again. */
  stop(options?: { readonly withinMs?: number }): Promise<void>;
}

/**
 * Publishes what handlers and `createOutbox` add, in this process. Any number of relays may run on one store.
 *
 * At least once, with the same id each time; in the order of commits for each key of a topic, as far as first publications
 * go. A row is deleted only after the destination has acknowledged it.
 */
export function createRelay(options: RelayOptions): Relay {
  const settings = relaySettings(options);
  const summary: RelaySummary = { published: 0, refused: 0, parked: 0, outages: 0 };
  let running: RelayRun | undefined;
  let ended: Promise<unknown> | undefined;
  return {
    store: settings.store,
    summary,
    get listening() {
      return running?.listening ?? false;
    },
    async run({ signal, points } = {}) {
      if (running !== undefined) throw new NevertwiceError('NT_CONFIG', 'this relay is already running');
      const { store, leaseMs, clock } = settings;
      const membership = new Membership(store.outbox, randomUUID(), leaseMs, clock);
      const run = new RelayRun(settings, membership, summary, points);
      running = run;
      const stop = () => run.stop();
      if (signal?.aborted) stop();
      signal?.addEventListener('abort', stop, { once: true });
      const done = run.run();
      ended = done.catch(() => undefined);
      try {
        await done;
        return { ...summary };
      } finally {
        signal?.removeEventListener('abort', stop);
        running = undefined;
      }
    },
    async stop({ withinMs } = {}) {
      running?.stop();
      const timer = withinMs === undefined ? undefined : setTimeout(() => running?.cutOff(), withinMs);
      await ended;
      clearTimeout(timer);
    },
  };
}
