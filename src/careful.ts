import { randomUUID } from 'node:crypto';
import { type Batch, type Entry, isReady, undecided } from './entry.ts';
import { identify } from './identify.ts';
import type { LaneRun } from './lanes.ts';
import type { Path, Scope } from './path.ts';
import type { Attempts } from './ports/attempts.ts';
import { processBatch } from './process-batch.ts';

const PROCESS = randomUUID();

/**
 * A message that kills the process takes with it whatever its transaction has counted. So a lane marks that it is at work, once, and
 * not message by message; where the one before never took its mark away, messages go one at a time at first, each behind a try that
 * is counted and committed before its handler starts. Whoever was tried too often is set aside without its handler.
 */
export class CarefulLane {
  readonly #run: LaneRun;
  readonly #scope: Scope;
  readonly #owner = `${PROCESS} ${randomUUID()}`;
  #entered = false;
  /** Messages that still go one by one: as many as can have been in work when the process died. */
  #left = 0;
  /** Tries that this process has counted itself. */
  readonly #begun = new WeakSet<Entry>();
  /** Ids whose tries have ended, and the store may not know it. */
  readonly #ended = new Set<string>();

  constructor(run: LaneRun, scope: Scope) {
    this.#run = run;
    this.#scope = scope;
  }

  /** Like `processBatch`, and may be called again with the same batch after an outage. */
  async process(batch: Batch): Promise<void> {
    const { attempts, path, lane } = this.#run;
    if (attempts !== undefined && !this.#entered) {
      const before = await attempts.enter(path.consumer, lane.id, this.#owner);
      this.#entered = true;
      // After a rebalance the one before may be this very process, which has not died.
      if (before !== undefined && !before.startsWith(PROCESS)) this.#beCareful();
    }
    if (attempts !== undefined && this.#left > 0) await this.#oneByOne(attempts, batch);
    await processBatch(path, this.#scope, batch);
  }

  /** The lane is given up in an orderly way. What cannot be written makes the next one careful, which loses nothing. */
  async leave(): Promise<void> {
    const { attempts, path, lane, health } = this.#run;
    if (attempts === undefined || !this.#entered || health.isDown) return;
    await this.#tellEnded(attempts)
      .then(() => attempts.leave(path.consumer, lane.id, this.#owner))
      .catch(() => undefined);
  }

  #beCareful(): void {
    const { path, lane } = this.#run;
    this.#left = path.policy.maxBatch;
    path.warn(
      'NT_CAREFUL',
      `${path.consumer}: whoever had ${lane.id} before did not leave it; its next ${this.#left} messages go one by one, in case one of them ends processes`,
    );
  }

  async #oneByOne(attempts: Attempts, batch: Batch): Promise<void> {
    const { path } = this.#run;
    batch.entries ??= await identify(path, batch.deliveries);
    await this.#tellEnded(attempts);
    for (const entry of undecided(batch)) {
      if (this.#scope.stopping.aborted || this.#left === 0) return;
      if (!isReady(entry)) {
        await this.#alone(entry);
        continue;
      }
      const { hex } = entry.claim;
      const tries = this.#begun.has(entry) ? 1 : await attempts.begin(path.consumer, hex);
      this.#begun.add(entry);
      const most = path.policy.quarantineAfter!;
      // Its own claim decides whether that still stands: somebody may have done it in the meantime.
      const tried = tries > most ? quarantined(entry, most) : entry;
      try {
        await this.#alone(tried);
      } finally {
        entry.verdict = tried.verdict;
        if (entry.verdict !== undefined || this.#scope.stopping.aborted) this.#ended.add(hex);
      }
      await this.#tellEnded(attempts);
      if (entry.verdict?.verdict !== 'duplicate') this.#left--;
    }
  }

  async #tellEnded(attempts: Attempts): Promise<void> {
    for (const hex of this.#ended) {
      await attempts.end(this.#run.path.consumer, hex);
      this.#ended.delete(hex);
    }
  }

  #alone(entry: Entry): Promise<void> {
    return processBatch(this.#run.path, this.#scope, { deliveries: [entry.delivery], entries: [entry] });
  }
}

function quarantined(entry: Entry, deaths: number): Entry {
  const reason = `its handler was started ${deaths} times and the process ended each time before it returned`;
  return { ...entry, route: undefined, refusal: { kind: 'quarantined', reason } };
}

/** Where the store can count, and tries are worth counting: at most once, nothing is tried again. */
export function countsAttempts({ mode, policy }: Pick<Path, 'mode' | 'policy'>): boolean {
  return policy.quarantineAfter !== undefined && mode !== 'at-most-once';
}
