import { BatchSize } from './batch-size.ts';
import { CarefulLane } from './careful.ts';
import type { Batch } from './entry.ts';
import { describeError, isNevertwiceError, type Unavailable } from './errors.ts';
import { Intake } from './intake.ts';
import { InWork, type LaneRun, scopeOf, settlementOf } from './lanes.ts';
import { reach, type Scope } from './path.ts';
import type { Delivery } from './ports/delivery.ts';

/**
 * The outer half of the path, for one lane from its assignment to its end: receive, have the batch processed, settle.
 * Always in this order: the source is told only what the store has committed.
 */
export async function consumeLane(run: LaneRun, received: readonly Delivery[] = []): Promise<void> {
  const { path } = run;
  const scope = scopeOf(run);
  const size = new BatchSize({ max: path.policy.maxBatch, budgetMs: path.policy.batchBudgetMs });
  const intake = new Intake(run, scope, size, received);
  const careful = new CarefulLane(run, scope);
  try {
    while (!scope.stopping.aborted) {
      const batch = await intake.take();
      if (batch.deliveries.length === 0) return;
      await run.downtime.over(scope.stopping);
      if (!(await run.slots.take(scope.stopping))) return;
      const inWork = new InWork(batch);
      run.inWork.push(inWork);
      try {
        const start = path.clock.monotonicMs();
        const processed = processThroughOutages(run, scope, batch, careful);
        intake.prepare();
        await processed;
        size.measured(batch.deliveries.length, path.clock.monotonicMs() - start);
        await settle(run, scope, batch);
      } finally {
        run.inWork.remove(inWork);
        run.slots.give();
      }
    }
  } finally {
    await careful.leave();
  }
}

/** An outage is waited out with the batch in hand: nothing is acked, no attempt is spent, no other delivery is taken. */
async function processThroughOutages(run: LaneRun, scope: Scope, batch: Batch, careful: CarefulLane): Promise<void> {
  await reach(run.path, scope, 'receive', 'after', []);
  let waited = false;
  while (!scope.stopping.aborted) {
    try {
      await careful.process(batch);
      run.health.healthy();
      run.downtime.healthy();
      return;
    } catch (error) {
      if (isNevertwiceError(error, 'NT_STOPPED')) return;
      waited = true;
      if (isNevertwiceError(error, 'NT_UNAVAILABLE')) {
        run.path.warn('NT_UNAVAILABLE', `${run.path.consumer} pauses: ${describeError(error)}`);
        await run.downtime.pause((error as Partial<Unavailable>).retryAfterMs, scope.stopping);
        continue;
      }
      if (!isNevertwiceError(error, 'NT_STORE_DOWN') || run.path.policy.onStoreDown === 'throw') throw error;
      run.path.warn('NT_STORE_DOWN', `${run.path.consumer} pauses: ${describeError(error)}`);
      await run.health.recovered(scope.stopping);
    }
  }
  if (waited) run.leftWaiting(batch);
}

/** Tells the source what became of each delivery; never for a lane that is gone. */
async function settle({ path, lane }: LaneRun, scope: Scope, batch: Batch): Promise<void> {
  const settlements = (batch.entries ?? []).map(settlementOf).filter(settlement => settlement !== undefined);
  if (settlements.length === 0) return;
  await reach(path, scope, 'settle', 'before', batch.entries ?? []);
  if (lane.revoked.aborted) return;
  try {
    if (scope.position !== undefined) lane.log?.recorded(scope.position.at);
    await lane.settle(settlements);
  } catch (error) {
    // The effects are durable. What the source did not hear about comes again and is a duplicate then.
    path.warn('NT_SETTLE_FAILED', `${path.consumer}: the source refused an acknowledgement: ${describeError(error)}`);
  }
  await reach(path, scope, 'settle', 'after', batch.entries ?? []);
}
