import assert from 'node:assert/strict';
import { type Receiver, settleAll } from './receiver.ts';
import { type Check, idsOf, type SourceSuiteCapabilities } from './support.ts';

const RETRY_MS = 200;

export function settleCases(check: Check, { countsAttempts, redelivers, retryLater }: SourceSuiteCapabilities): void {
  check('settle: what was acked does not come again', true, async run => {
    await run.send('m1', 'm2', 'm3');
    const first = await run.start();
    await settleAll(await first.take(3));
    await run.stop();
    await run.send('m4');
    const second = await run.restart();
    assert.deepEqual(idsOf(await second.take(1)), ['m4']);
  });

  check('settle: what was not settled comes again, in order (C61)', true, async run => {
    await run.send('m1', 'm2', 'm3');
    const first = await run.start();
    await settleAll((await first.take(3)).slice(0, 1));
    const second = await run.restart();
    assert.deepEqual(idsOf(await second.take(2)), ['m2', 'm3']);
  });

  check('settle: a later ack does not settle an earlier delivery (C54, C55)', true, async run => {
    await run.send('m1', 'm2', 'm3', 'm4');
    const first = await run.start();
    const taken = await first.take(4);
    await settleAll(taken.filter((_, i) => i === 1 || i === 2));
    const second = await run.restart();
    // A source that remembers one number per lane gives m2 and m3 again; one that settles singly does not.
    const again = await takeUntil(second, 'm4');
    assert.deepEqual(
      again.filter(id => id !== 'm2' && id !== 'm3'),
      ['m1', 'm4'],
    );
  });

  check('settle: an attempt is counted for every time it came', countsAttempts, async run => {
    await run.send('m1');
    const first = await run.start();
    const [one] = await first.take(1);
    const second = await run.restart();
    const [two] = await second.take(1);
    assert.equal(one!.delivery.attempt, 1);
    assert.equal(two!.delivery.attempt, 2);
  });

  check('settle: what is not settled in time comes again to the same reader', redelivers, async run => {
    await run.send('m1', 'm2');
    const receiver = await run.start();
    await settleAll((await receiver.take(2)).slice(1));
    await run.harness.redeliverUnsettled!();
    assert.deepEqual(idsOf(await receiver.take(1)), ['m1']);
  });

  check('settle: twice is harmless, and settles nothing else', true, async run => {
    await run.send('m1', 'm2');
    const first = await run.start();
    const [one] = await first.take(2);
    const ack = { delivery: one!.delivery, settle: 'ack' } as const;
    await one!.lane.settle([ack, ack]);
    await one!.lane.settle([ack]);
    await one!.lane.settle([]);
    const second = await run.restart();
    assert.deepEqual(idsOf(await second.take(1)), ['m2']);
  });

  check('settle: nothing counts once the run is over (C52)', true, async run => {
    await run.send('m1', 'm2');
    const first = await run.start();
    const [one] = await first.take(2);
    await run.stop();
    assert.equal(one!.lane.revoked.aborted, true);
    await one!.lane.settle([{ delivery: one!.delivery, settle: 'ack' }]);
    const second = await run.restart();
    assert.deepEqual(idsOf(await second.take(2)), ['m1', 'm2']);
  });

  check(
    'settle: retry-later comes again after its delay and not earlier, while others go on (C65, C68)',
    retryLater || 'the source cannot hand back a single delivery',
    async run => {
      await run.send('m1', 'm2', 'm3');
      const receiver = await run.start();
      const [one, two] = await receiver.take(2);
      const before = performance.now();
      await one!.lane.settle([
        { delivery: one!.delivery, settle: 'retry-later', delayMs: RETRY_MS },
        { delivery: two!.delivery, settle: 'ack' },
      ]);
      const later = await receiver.take(2);
      const waitedMs = performance.now() - before;
      assert.deepEqual(idsOf(later), ['m3', 'm1']);
      assert.ok(waitedMs >= RETRY_MS, `came after ${waitedMs} ms, asked for ${RETRY_MS}`);
    },
  );
}

async function takeUntil(receiver: Receiver, id: string): Promise<readonly (string | undefined)[]> {
  const ids: (string | undefined)[] = [];
  while (ids.at(-1) !== id) ids.push(...idsOf(await receiver.take(1)));
  return ids;
}
