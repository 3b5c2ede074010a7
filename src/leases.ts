import type { ReadyEntry } from './entry.ts';
import { NevertwiceError } from './errors.ts';
import type { Path } from './path.ts';
import type { LeaseInbox, LeaseProof } from './ports/store.ts';

/** A claim that is ours, with its proof. */
export type Held = LeaseProof & { readonly claim: ReadyEntry['claim']; readonly token: bigint };

/** Cuts the running handler off if it works on one of these. */
export type CutOff = (reason: NevertwiceError, lost: ReadonlySet<ReadyEntry>) => void;

/**
 * The leases of one group while its handlers run, renewed at a third of their life. A lease is lost when the store says that
 * another owner has the key. While the store cannot be reached it is not: then nobody else can claim either, and to cut a
 * handler off whose effect may be half done would repeat it.
 */
export class Leases {
  readonly #path: Path;
  readonly #inbox: LeaseInbox;
  readonly #held: ReadonlyMap<ReadyEntry, Held>;
  readonly #everyMs: number;
  readonly #lost = new Set<ReadyEntry>();
  /** Whose completion has been sent. What is done and waits for its turn to be recorded still needs its lease. */
  readonly #completing = new Set<ReadyEntry>();
  /** Until when all of them last for sure, by our clock: from before the call that the store answered. */
  #until: number;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;
  #cutOff: CutOff | undefined;

  /** @param sentMs when the claim was sent, by the path's monotonic clock */
  constructor(path: Path, inbox: LeaseInbox, held: ReadonlyMap<ReadyEntry, Held>, sentMs: number) {
    const { leaseMs } = path.policy;
    this.#path = path;
    this.#inbox = inbox;
    this.#held = held;
    this.#everyMs = leaseMs / 3;
    this.#until = sentMs + leaseMs;
    this.#renewIn(this.#everyMs);
  }

  /** True when a further handler may start: none is lost, and what is left of the others is worth beginning with. */
  get lasting(): boolean {
    const leftMs = this.#until - this.#path.clock.monotonicMs();
    return this.#lost.size === 0 && leftMs >= Math.min(this.#path.policy.timeoutMs, this.#everyMs);
  }

  /** True when any of them is. */
  get lost(): boolean {
    return this.#lost.size > 0;
  }

  isLost(entry: ReadyEntry): boolean {
    return this.#lost.has(entry);
  }

  /** Whom to tell when one is lost whose handler has started. */
  onLost(cutOff: CutOff): void {
    this.#cutOff = cutOff;
  }

  /** To be called before these are completed: nothing of them is renewed from then on. */
  completing(entries: readonly ReadyEntry[]): void {
    for (const entry of entries) this.#completing.add(entry);
  }

  /** No more renewals: what is not completed or released runs out. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }

  #renewIn(ms: number): void {
    if (this.#ended) return;
    // Real time, whatever the clock of a test says, as for the time limit of handlers.
    const due = performance.now() + ms;
    this.#timer = setTimeout(() => void this.#renew(performance.now() - due), ms);
  }

  async #renew(lateMs: number): Promise<void> {
    if (lateMs > this.#everyMs) {
      const blocked = `${Math.round(lateMs)} ms`;
      this.#path.warn(
        'NT_LEASE_LATE',
        `${this.#path.consumer}: a lease was renewed ${blocked} late, because the event loop was blocked; after ${this.#path.policy.leaseMs} ms another process would have taken the message over`,
      );
    }
    const { leaseMs } = this.#path.policy;
    const sentMs = this.#path.clock.monotonicMs();
    // A renewal behind its own completion would be refused, and count as one of a stale owner.
    const open = [...this.#held].filter(
      ([entry]) => entry.verdict === undefined && !this.#completing.has(entry) && !this.#lost.has(entry),
    );
    if (open.length === 0) return;
    let owned: readonly boolean[];
    try {
      owned = await this.#inbox.renew(
        open.map(([, { claim, nonce }]) => ({ claim, nonce })),
        leaseMs,
      );
    } catch {
      // Whether the store is down the next call of the path finds out, and waits for it; here it is only asked again.
      this.#renewIn(this.#everyMs / 2);
      return;
    }
    if (this.#ended) return;
    // One that was completed or given up while the call was under way has no lease and needs none.
    const gone = open.filter(
      ([entry], i) => !owned[i] && entry.verdict === undefined && entry.unrecorded === undefined,
    );
    for (const [entry] of gone) this.#lost.add(entry);
    this.#until = sentMs + leaseMs;
    if (gone.length > 0) this.#tell();
    this.#renewIn(this.#everyMs);
  }

  #tell(): void {
    const { consumer, warn } = this.#path;
    warn('NT_LEASE_LOST', `${consumer}: a message was taken over by another process while its handler was at work`);
    this.#cutOff?.(
      new NevertwiceError('NT_LEASE_LOST', 'another process has taken this message over; it decides what comes of it'),
      this.#lost,
    );
  }
}
