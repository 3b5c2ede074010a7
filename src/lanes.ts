import { BatchSize } from './batch-size.ts';
import { mayAck } from './core/verdict.ts';
import type { Slots } from './core/slots.ts';
import type { Batch, Entry } from './entry.ts';
import { describeError, isNevertwiceError } from './errors.ts';
import type { Health } from './outage.ts';
import { type Path, reach, type Scope } from './path.ts';
import type { Lane, Settlement } from './ports/source.ts';
import { processBatch } from './process-batch.ts';

/** When a message that a live owner holds is handed back, it comes again after this long. */
const BUSY_DELAY_MS = 1_000;

export interface LaneRun {
  readonly path: Path;
  readonly lane: Lane;
  readonly slots: Slots;
  readonly health: Health;
  /** No new deliveries and no new handlers. */
  readonly stopping: AbortSignal;
  /** Running handlers are cut off. */
  readonly abort: AbortSignal;
  readonly retryLater: boolean;
  /** Holds each batch while it is in work, so that a stop can say what it abandoned. */
  readonly inWork: Set<Batch>;
}

/** One lane from its assignment to its end: receive, process, settle, one batch after the other. */
export async function runLane(run: LaneRun): Promise<void> {
  const { path, lane } = run;
  const scope = scopeOf(run);
  const size = new BatchSize({ max: path.policy.maxBatch, budgetMs: path.policy.batchBudgetMs });
  while (!scope.stopping.aborted) {
    const deliveries = await lane.receive(size.next, scope.stopping);
    if (deliveries.length === 0) return;
    await run.slots.take();
    const batch: Batch = { deliveries, entries: undefined };
    run.inWork.add(batch);
    try {
      const start = path.clock.monotonicMs();
      await processThroughOutages(run, scope, batch);
      size.measured(deliveries.length, path.clock.monotonicMs() - start);
      await settle(run, scope, batch);
    } finally {
      run.inWork.delete(batch);
      run.slots.give();
    }
  }
}

function scopeOf({ path, lane, stopping, abort, retryLater }: LaneRun): Scope {
  return {
    lane: lane.id,
    stopping: AbortSignal.any([stopping, lane.revoked]),
    abort,
    attempts: path.policy.attempts,
    // A source that cannot take one delivery back has its lane wait: going on would leave it behind.
    busyWaitMs: retryLater ? path.policy.busyWaitMs : Number.POSITIVE_INFINITY,
    canRetryLater: entry => retryLater && entry.delivery.attempt < path.policy.deliveries,
  };
}

/** An outage is waited out with the batch in hand: nothing is acked, no attempt is spent, no other delivery is taken. */
async function processThroughOutages(run: LaneRun, scope: Scope, batch: Batch): Promise<void> {
  await reach(run.path, scope, 'receive', 'after', []);
  while (!scope.stopping.aborted) {
    try {
      await processBatch(run.path, scope, batch);
      run.health.healthy();
      return;
    } catch (error) {
      if (isNevertwiceError(error, 'NT_STOPPED')) return;
      if (!isNevertwiceError(error, 'NT_STORE_DOWN')) throw error;
      run.path.warn('NT_STORE_DOWN', `${run.path.consumer} pauses: ${describeError(error)}`);
      await run.health.recovered(scope.stopping);
    }
  }
}

/** Tells the source what became of each delivery; only after the commit, and never for a lane that is gone. */
async function settle({ path, lane }: LaneRun, scope: Scope, batch: Batch): Promise<void> {
  const settlements = (batch.entries ?? []).flatMap(settlementOf);
  if (settlements.length === 0 || lane.revoked.aborted) return;
  await reach(path, scope, 'settle', 'before', batch.entries ?? []);
  try {
    await lane.settle(settlements);
  } catch (error) {
    // The effects are durable. What the source did not hear about comes again and is a duplicate then.
    path.warn('NT_SETTLE_FAILED', `${path.consumer}: the source refused an acknowledgement: ${describeError(error)}`);
  }
  await reach(path, scope, 'settle', 'after', batch.entries ?? []);
}

function settlementOf({ delivery, verdict }: Entry): readonly Settlement[] {
  if (verdict !== undefined && mayAck(verdict)) return [{ delivery, settle: 'ack', verdict: verdict.verdict }];
  if (verdict?.verdict === 'retry-later') return [{ delivery, settle: 'retry-later', delayMs: verdict.delayMs }];
  if (verdict?.verdict === 'busy') return [{ delivery, settle: 'retry-later', delayMs: BUSY_DELAY_MS }];
  return [];
}
