import assert from 'node:assert/strict';
import { aborted, settleAll } from './receiver.ts';
import { type Check, idsOf, type SourceSuiteCapabilities } from './support.ts';

export function laneCases(check: Check, { revokes }: SourceSuiteCapabilities): void {
  check('lane: its id is on every delivery and survives a restart', true, async run => {
    await run.send('m1');
    const first = await run.start();
    const [one] = await first.take(1);
    const second = await run.restart();
    const [again] = await second.take(1);
    assert.equal(one!.delivery.lane, one!.lane.id);
    assert.equal(again!.lane.id, one!.lane.id);
  });

  check('lane: a revoked one ends, and can settle nothing (C52)', revokes, async run => {
    await run.send('m1', 'm2');
    const receiver = await run.start();
    const taken = await receiver.take(2);
    const { lane } = taken[0]!;
    // A source that learns of it before waits for this.
    lane.leaving?.addEventListener('abort', () => lane.ended?.(), { once: true });
    await run.harness.revoke!();
    await run.within(aborted(lane.revoked), 'the lane to be revoked');
    assert.deepEqual(await run.within(lane.receive(1, new AbortController().signal), 'a revoked lane to end'), []);
    await settleAll(taken);
    assert.deepEqual(idsOf(await receiver.take(2)), ['m1', 'm2']);
  });
}
