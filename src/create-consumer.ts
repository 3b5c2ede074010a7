import { bindStore, takeName, transactional } from './bind.ts';
import { countsAttempts } from './careful.ts';
import { Circuit } from './circuit.ts';
import { concurrencyFor } from './concurrency.ts';
import { consumeLane } from './consumer.ts';
import {
  assertOverlap,
  assertPromise,
  type ConsumerOptions,
  consumerSignature,
  resolveConsumer,
} from './consumer-options.ts';
import type { ContextOf } from './context.ts';
import { Chain } from './core/chain.ts';
import { anyOf } from './core/on-abort.ts';
import { Slots } from './core/slots.ts';
import { Downtime } from './downtime.ts';
import { connectionsPerLane, ledgerOf } from './effects/ledger.ts';
import { type Batch, undecided } from './entry.ts';
import { NevertwiceError } from './errors.ts';
import type { InWork, LaneRun } from './lanes.ts';
import { healthFor } from './outage.ts';
import type { BoundStore, Path, Summary } from './path.ts';
import type { Clock } from './ports/clock.ts';
import type { EffectRows } from './ports/effects.ts';
import type { Points } from './ports/points.ts';
import type { Lane, Source } from './ports/source.ts';
import type { Sql } from './ports/sql.ts';
import type { Store, TransactionalStore } from './ports/store.ts';
import { ownLane } from './positions/own-lane.ts';
import { lettersOf, type RedriveOptions, type RedriveSummary, redrive } from './redrive.ts';
import { retryHorizonMs } from './retries.ts';

export interface RunOptions {
  /** Stops the consumer like `stop()` with no deadline. */
  readonly signal?: AbortSignal;
  /** Instead of the source given at creation. */
  readonly source?: Source;
  /** Instead of the store given at creation. */
  readonly store?: Store;
  /** Named points to wait on or crash at; for tests. */
  readonly points?: Points;
  /** Instead of the one given at creation; for tests. */
  readonly clock?: Clock;
}

export interface Consumer {
  readonly name: string;
  /** Those given at creation; `run` may be given others. */
  readonly source: Source | undefined;
  readonly store: Store | undefined;
  /** What happened since the start; live while it runs. */
  readonly summary: Readonly<Summary>;
  /**
   * Receives until stopped, or until a finite source is exhausted. Resolves with the counts once everything in work is
   * settled. Rejects with NT_CONFIG or NT_SCHEMA when it cannot start, with NT_STORE_DOWN when the store cannot be
   * reached at the start (later it pauses and goes on by itself), and with the error of a source that broke.
   */
  run(options?: RunOptions): Promise<Summary>;
  /**
   * No handler starts any more; running ones may finish for `withinMs` (default: as long as they take) and are settled;
   * then they are cut off and rolled back. Resolves once all is quiet, with the ids that were abandoned, what waited out an outage
   * among them: they were not acked and come again. May be called any time and again.
   */
  stop(options?: { readonly withinMs?: number }): Promise<{ readonly abandoned: readonly string[] }>;
  /**
   * Sends dead letters through the handler again, also beside a consumer that runs, here or elsewhere. Rejects like `run`, and
   * with NT_CONFIG for a store that keeps no letters; what was decided before that stays decided.
   */
  redrive(options?: RedriveOptions & Pick<RunOptions, 'store' | 'points' | 'clock'>): Promise<RedriveSummary>;
}

/**
 * An idempotent consumer: every message's effect happens once, however often it is delivered. Does nothing until `run`.
 *
 * Throws NT_CONFIG for options that cannot work.
 */
export function createConsumer<S extends Store = TransactionalStore<Sql>, B = unknown, M = Record<never, never>>(
  options: ConsumerOptions<S, B, M, ContextOf<S>>,
): Consumer {
  const settings = resolveConsumer(options as ConsumerOptions<any, any, any, any>);
  const counts = noCounts();
  const inWork = new Chain<InWork>();
  let running: Running | undefined;

  const pathOn = (
    store: BoundStore,
    { clock, points }: Pick<RunOptions, 'clock' | 'points'>,
    counts: Summary,
    effects: EffectRows | undefined,
  ): Path => ({
    ...settings,
    // In a transaction an effect would hold up its neighbours, and one that failed would undo theirs.
    policy:
      effects !== undefined && store.promise === 'exactly-once' ? { ...settings.policy, maxBatch: 1 } : settings.policy,
    effects,
    keepsResults: false,
    consumer: settings.name,
    store,
    clock: clock ?? settings.clock,
    points,
    counts,
    circuit: settings.policy.circuit && new Circuit(settings.policy.circuit, counts, clock ?? settings.clock),
  });

  async function work(run: RunOptions, { stop, cutOff, abandoned }: Omit<Running, 'done'>): Promise<Summary> {
    const store = required(run.store ?? options.store, 'store');
    const source = required(run.source ?? options.source, 'source');
    assertOverlap(settings, store);
    assertPromise(settings, store);
    const effects = ledgerOf(options.effects, store);
    if (settings.dedupe !== 'id') transactional(store, `dedupe: '${settings.dedupe}'`);
    const giveName = takeName(store, settings.name);
    try {
      const bound = await bindStore(store, {
        name: settings.name,
        signature: consumerSignature(settings),
        redeliveryHorizonMs: source.capabilities.redeliveryHorizonMs,
      });
      const consume = (run: LaneRun) =>
        bound.promise === 'exactly-once' && settings.dedupe !== 'id' ? ownLane(run, bound.lanes) : consumeLane(run);
      if (options.setup !== undefined) await transactional(store, 'setup').setup(settings.name, options.setup);
      const path = pathOn(bound, run, counts, effects);
      if (bound.promise === 'at-least-once') warnShortRetention(path, bound.inbox.retentionMs, source);
      const slots = new Slots(concurrencyFor(settings, store, path.warn, connectionsPerLane(effects, store)));
      const health = healthFor(store, path.clock);
      const downtime = new Downtime(path.clock);
      const counted = countsAttempts(path) && source.capabilities.briefLanes !== true;
      const attempts = counted ? store.attempts : undefined;
      const lanes = new Set<Promise<void>>();
      let broken: { readonly error: unknown } | undefined;
      const breakOff = (error: unknown) => {
        broken ??= { error };
        stop.abort();
      };
      const start = (lane: Lane) => {
        const stopping = anyOf([stop.signal, lane.revoked, ...(lane.leaving === undefined ? [] : [lane.leaving])]);
        const ended: Promise<void> = consume({
          path,
          lane,
          slots,
          health,
          downtime,
          attempts,
          stopping: stopping.signal,
          abort: cutOff.signal,
          retryLater: source.capabilities.retryLater,
          position: undefined,
          readAhead: source.capabilities.readAhead === true,
          inWork,
          leftWaiting: batch => {
            if (stop.signal.aborted) abandoned.push(...openIds(batch));
          },
        })
          .catch(breakOff)
          .finally(() => {
            stopping.release();
            lanes.delete(ended);
            lane.ended?.();
          });
        lanes.add(ended);
      };
      const arriving = source
        .receive({
          signal: stop.signal,
          consumer: settings.name,
          positions: store.positions,
          positioned: settings.dedupe !== 'id',
        })
        [Symbol.asyncIterator]();
      try {
        for (let next = await arriving.next(); next.done !== true; next = await arriving.next()) start(next.value);
      } catch (error) {
        breakOff(error);
      }
      await Promise.all(lanes);
      // Not `for await`: that would close the source's connections while the last lanes still have something to settle.
      await arriving.return?.();
      if (broken !== undefined) throw broken.error;
      return { ...counts };
    } finally {
      giveName();
    }
  }

  return {
    name: settings.name,
    source: options.source,
    store: options.store,
    summary: counts,
    async run(run = {}) {
      if (running !== undefined) throw new NevertwiceError('NT_CONFIG', `consumer ${settings.name} is already running`);
      const stop = new AbortController();
      const cutOff = new AbortController();
      const onAbort = () => stop.abort();
      if (run.signal?.aborted) onAbort();
      run.signal?.addEventListener('abort', onAbort, { once: true });
      const parts = { stop, cutOff, abandoned: [] };
      const done = work(run, parts).finally(() => {
        run.signal?.removeEventListener('abort', onAbort);
        running = undefined;
      });
      running = { done, ...parts };
      return done;
    },
    async redrive(redriving = {}) {
      const store = required(redriving.store ?? options.store, 'store');
      const letters = lettersOf(settings, store);
      const bound = await bindStore(store, { name: settings.name, signature: consumerSignature(settings) });
      if (options.setup !== undefined) await transactional(store, 'setup').setup(settings.name, options.setup);
      // What a redrive does is no part of what the source brought.
      const path = pathOn(bound, redriving, noCounts(), ledgerOf(options.effects, store));
      return redrive(path, letters, redriving);
    },
    async stop({ withinMs } = {}) {
      if (running === undefined) return { abandoned: [] };
      const { done, stop, cutOff, abandoned } = running;
      stop.abort();
      const atDeadline = () => {
        if (cutOff.signal.aborted) return;
        abandoned.push(...[...inWork].flatMap(({ batch }) => openIds(batch)));
        cutOff.abort(
          new NevertwiceError(
            'NT_STOPPED',
            `consumer ${settings.name} was stopped and the handler did not finish in time; it was rolled back and not acked`,
          ),
        );
      };
      const timer = withinMs === undefined ? undefined : setTimeout(atDeadline, withinMs);
      // How the run itself ended is for whoever called `run`.
      await done.then(
        () => undefined,
        () => undefined,
      );
      clearTimeout(timer);
      return { abandoned: [...new Set(abandoned)] };
    },
  };
}

const openIds = (batch: Batch): readonly string[] =>
  undecided(batch).map(entry => entry.id ?? entry.delivery.position ?? '');

const noCounts = (): Summary => ({ processed: 0, duplicates: 0, conflicts: 0, deadLetters: 0, failed: 0 });

interface Running {
  readonly done: Promise<Summary>;
  readonly stop: AbortController;
  readonly cutOff: AbortController;
  /** Filled at the first deadline that passes, and by what a stop takes out of an outage; the answer to every `stop()` of this run. */
  readonly abandoned: string[];
}

function required<T>(value: T | undefined, what: string): T {
  if (value === undefined)
    throw new NevertwiceError('NT_CONFIG', `the consumer has no ${what}; give one to createConsumer or to run`);
  return value;
}

/** An id that is forgotten while its message can still come again is a new one then. */
function warnShortRetention(path: Path, retentionMs: number, source: Source): void {
  const ours = retryHorizonMs(path.policy);
  const theirs = source.capabilities.redeliveryHorizonMs ?? 0;
  const needed = Math.max(ours, theirs);
  if (retentionMs >= needed) return;
  const whose = ours >= theirs ? 'its retries' : source.name;
  path.warn(
    'NT_RETENTION_SHORT',
    `${path.consumer}: ids are kept for ${retentionMs} ms, and ${whose} may bring a message again after ${needed} ms: it would be handled twice; set retentionMs above that`,
  );
}
