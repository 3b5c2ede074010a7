import { backoffMs } from '../core/backoff.ts';
import { describeError, isNevertwiceError, NevertwiceError } from '../errors.ts';
import { type Health, healthFor } from '../outage.ts';
import type { WaitingRow } from '../ports/outbox.ts';
import { warner } from '../warnings.ts';
import type { RelayPoint, RelayRunOptions, RelaySummary } from './create-relay.ts';
import type { Failure } from './destination.ts';
import { HeldKeys } from './held-keys.ts';
import type { Membership } from './membership.ts';
import { publish } from './publish.ts';
import type { RelaySettings } from './relay-options.ts';
import { Wake } from './wake.ts';

/** The shortest wait of a relay that found nothing, in milliseconds. */
const IDLE_MS = 5;

/** So many keys that wait are no sick keys any more, but a sick destination. */
const MOST_HELD = 1_000;

/** One run of a relay: read the oldest, publish in order, delete what is acknowledged. */
export class RelayRun {
  readonly #settings: RelaySettings;
  readonly #membership: Membership;
  readonly #summary: RelaySummary;
  readonly #points: RelayRunOptions['points'];
  readonly #held: HeldKeys;
  readonly #health: Health;
  readonly #wake = new Wake();
  readonly #stopping = new AbortController();
  readonly #cutOff = new AbortController();
  readonly #warn = warner();
  /** How many times a part's share of a batch each worker asks for. */
  readonly #widths: number[] = [];
  /** All wait for one pause of a destination that is down. */
  #pause: Promise<void> | undefined;
  #outages = 0;
  #broken: { readonly error: unknown } | undefined;
  listening = false;

  constructor(
    settings: RelaySettings,
    membership: Membership,
    summary: RelaySummary,
    points: RelayRunOptions['points'],
  ) {
    this.#settings = settings;
    this.#membership = membership;
    this.#summary = summary;
    this.#points = points;
    this.#held = new HeldKeys(settings.clock, settings.backoff);
    this.#health = healthFor(settings.store, settings.clock);
  }

  stop(): void {
    this.#stopping.abort();
  }

  cutOff(): void {
    this.#cutOff.abort(new NevertwiceError('NT_STOPPED', 'the relay was stopped before the destination answered'));
  }

  async run(): Promise<void> {
    const { store, concurrency, destination, listen } = this.#settings;
    const deaf = listen ? store.outbox.listen({ woken: () => this.#wake.ring(), state: this.#onState }) : undefined;
    try {
      const workers = Array.from({ length: concurrency }, (_, i) => this.#work(i));
      await Promise.all([...workers, this.#renew()]);
    } finally {
      await deaf?.();
      await destination.close?.();
      // Whoever takes over need not wait for the end of the lease; if this fails, he does.
      await this.#membership.leave().catch(() => undefined);
    }
    if (this.#broken !== undefined) throw this.#broken.error;
  }

  readonly #onState = (ears: boolean, reason: string | undefined) => {
    this.listening = ears;
    if (reason !== undefined)
      this.#warn('NT_OUTBOX_DEAF', `the relay of ${this.#settings.store.name} only polls: ${reason}`);
  };

  async #renew(): Promise<void> {
    const { clock, leaseMs } = this.#settings;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await clock.sleep(leaseMs / 3, signal);
      // An outage is met by those who work.
      if (!signal.aborted && this.#membership.holds) await this.#membership.renew().catch(() => undefined);
    }
  }

  async #work(worker: number): Promise<void> {
    const { signal } = this.#stopping;
    const undeleted: WaitingRow[] = [];
    let idleMs = IDLE_MS;
    while (!signal.aborted) {
      try {
        await this.#pause;
        const woken = this.#wake.next();
        const found = await this.#round(worker, undeleted);
        this.#health.healthy();
        if (found) idleMs = IDLE_MS;
        else await this.#idle(idleMs, woken);
        if (!found) idleMs = Math.min(2 * idleMs, this.#settings.pollMs);
      } catch (error) {
        await this.#afterStoreError(error);
      }
    }
    // What is acknowledged need not be published again.
    if (undeleted.length > 0) await this.#settings.store.outbox.remove(undeleted).catch(() => undefined);
  }

  async #idle(ms: number, woken: Promise<void>): Promise<void> {
    const { clock } = this.#settings;
    const over = new AbortController();
    const sleep = clock.sleep(
      Math.min(ms, this.#held.dueInMs()),
      AbortSignal.any([over.signal, this.#stopping.signal]),
    );
    await Promise.race([sleep, woken]);
    over.abort();
  }

  async #afterStoreError(error: unknown): Promise<void> {
    if (!isNevertwiceError(error) || !error.retryable) {
      this.#broken ??= { error };
      this.stop();
      return;
    }
    this.#summary.outages++;
    this.#membership.drop();
    this.#warn('NT_STORE_DOWN', `the relay waits for ${this.#settings.store.name}: ${describeError(error)}`);
    await this.#health.recovered(this.#stopping.signal);
  }

  /** One batch. False when there was nothing to do. */
  async #round(worker: number, undeleted: WaitingRow[]): Promise<boolean> {
    const { concurrency } = this.#settings;
    const { outbox } = this.#settings.store;
    await this.#membership.ensure();
    await this.#remove(undeleted);
    const held = this.#held.now();
    if (held.length > MOST_HELD) return false;
    const parts = this.#membership.parts.filter((_, i) => i % concurrency === worker);
    await this.#reach('read', 'before', []);
    const rows = await this.#read(worker, parts, held);
    if (rows.length === 0) return false;
    await this.#reach('read', 'after', rows);
    await outbox.moveBehind(rows.filter(row => row.behind));
    await this.#publish(
      rows.filter(row => !row.behind),
      undeleted,
    );
    return true;
  }

  /** At most a batch. Where few of the parts have rows, more is asked of each, or a single busy key would come in crumbs. */
  async #read(worker: number, parts: readonly number[], held: readonly number[]): Promise<readonly WaitingRow[]> {
    const { maxBatch, store } = this.#settings;
    const width = this.#widths[worker] ?? 1;
    const limit = maxBatch * width;
    const rows = await store.outbox.read(parts, held, limit);
    const share = Math.ceil(limit / parts.length);
    const full = [...Map.groupBy(rows, row => row.part).values()].some(ofPart => ofPart.length >= share);
    if (rows.length >= maxBatch) this.#widths[worker] = 1;
    else if (full) this.#widths[worker] = Math.min(2 * width, parts.length);
    // Sorted, so what is left of each key is its beginning.
    return rows.slice(0, maxBatch);
  }

  async #publish(rows: readonly WaitingRow[], undeleted: WaitingRow[]): Promise<void> {
    const { destination, overlap, publishTimeoutMs } = this.#settings;
    await this.#reach('publish', 'before', rows);
    const { acked, failed } = await publish(rows, {
      destination,
      overlap,
      timeoutMs: publishTimeoutMs,
      abort: this.#cutOff.signal,
      mayGoOn: () => this.#membership.holds && !this.#stopping.signal.aborted,
    });
    this.#summary.published += acked.length;
    for (const { hash } of acked) this.#held.free(hash);
    if (acked.length > 0) this.#outages = 0;
    // Kept here until it is done: a database that is down for deletes alone must not have all of them published again.
    undeleted.push(...acked);
    await this.#reach('publish', 'after', acked);
    await this.#remove(undeleted);
    for (const { row, failure } of failed) await this.#failed(row, failure);
  }

  async #remove(undeleted: WaitingRow[]): Promise<void> {
    if (undeleted.length === 0) return;
    await this.#reach('delete', 'before', undeleted);
    await this.#settings.store.outbox.remove(undeleted);
    await this.#reach('delete', 'after', undeleted);
    undeleted.length = 0;
  }

  async #failed(row: WaitingRow, { kind, final, error }: Failure): Promise<void> {
    if (this.#cutOff.signal.aborted) return;
    if (kind === 'down') return this.#destinationDown(error);
    this.#held.hold(row.hash);
    if (kind === 'later') return;
    this.#summary.refused++;
    const { store, maxAttempts } = this.#settings;
    const reason = describeError(error).slice(0, 500);
    const attempts = await store.outbox.refused(row, reason.replaceAll('\0', '\uFFFD').toWellFormed());
    if (attempts === undefined || (attempts < maxAttempts && !final)) return;
    await store.outbox.park(row);
    this.#held.free(row.hash);
    this.#summary.parked++;
    this.#warn(
      'NT_OUTBOX_PARKED',
      `message ${row.id} for ${row.topic} was parked after ${attempts} refused tries, and its key waits behind it; nevertwice outbox lists it (${reason})`,
    );
  }

  #destinationDown(error: unknown): void {
    if (this.#pause !== undefined) return;
    const { clock, backoff, destination } = this.#settings;
    this.#summary.outages++;
    this.#warn('NT_DESTINATION_DOWN', `the relay waits for ${destination.name}: ${describeError(error)}`);
    const wait = backoffMs(++this.#outages, backoff, clock.random());
    this.#pause = clock.sleep(wait, this.#stopping.signal).finally(() => {
      this.#pause = undefined;
    });
  }

  async #reach(step: RelayPoint['step'], edge: RelayPoint['edge'], rows: readonly WaitingRow[]): Promise<void> {
    if (this.#points !== undefined) await this.#points.reach({ step, edge, ids: rows.map(row => row.id) });
  }
}
