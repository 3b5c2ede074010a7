import assert from 'node:assert/strict';
import { settleAll } from './receiver.ts';
import { type Check, idsOf, type SourceSuiteCapabilities } from './support.ts';

export function receiveCases(check: Check, { finite, retryLater, readAhead }: SourceSuiteCapabilities): void {
  check('capabilities: the source says what the suite was told', true, async ({ harness }) => {
    assert.equal(harness.source.capabilities.finite, finite);
    assert.equal(harness.source.capabilities.retryLater, retryLater);
    assert.equal(harness.source.capabilities.readAhead ?? false, readAhead ?? false);
  });

  check('receive: deliveries of a lane come in the order in which they were sent', true, async run => {
    const ids = numbered(20);
    await run.send(...ids);
    const receiver = await run.start();
    assert.deepEqual(idsOf(await receiver.take(20, 7)), ids);
  });

  check('receive: gives at least one and at most max', true, async run => {
    await run.send(...numbered(10));
    const receiver = await run.start();
    const [first] = await receiver.take(1);
    for (let got = 1; got < 10; ) {
      const { length } = await run.within(first!.lane.receive(3, new AbortController().signal), 'receive(3)');
      assert.ok(length >= 1 && length <= 3, `receive(3) gave ${length} deliveries`);
      got += length;
    }
  });

  check('receive: two copies of a message are two deliveries', true, async run => {
    await run.send('m1', 'm1', 'm2');
    const receiver = await run.start();
    assert.deepEqual(idsOf(await receiver.take(3)), ['m1', 'm1', 'm2']);
  });

  check('receive: what nobody asks for waits, over a restart too', true, async run => {
    await run.send('m1', 'm2', 'm3');
    const first = await run.start();
    await settleAll(await first.take(1));
    const second = await run.restart();
    assert.deepEqual(idsOf(await second.take(2, 1)), ['m2', 'm3']);
  });

  check(
    'receive: gives the next batch while nothing of the last one is settled, and both can be',
    readAhead === true || 'the source is not read ahead',
    async run => {
      await run.send('m1', 'm2', 'm3', 'm4');
      const receiver = await run.start();
      const first = await receiver.take(2, 2);
      const second = await receiver.take(2, 2);
      assert.deepEqual(idsOf([...first, ...second]), ['m1', 'm2', 'm3', 'm4']);
      await settleAll(first);
      await settleAll(second);
      await run.send('m5');
      const next = await run.restart();
      assert.deepEqual(idsOf(await next.take(1)), ['m5']);
    },
  );

  check('receive: a stop ends it with an empty array, although more is there (C111)', true, async run => {
    await run.send('m1', 'm2', 'm3');
    const receiver = await run.start();
    const [first] = await receiver.take(1);
    const stop = new AbortController();
    stop.abort();
    assert.deepEqual(await run.within(first!.lane.receive(10, stop.signal), 'receive to end'), []);
    receiver.abort();
    await first!.lane.settle([{ delivery: first!.delivery, settle: 'ack' }]);
    const next = await run.restart();
    assert.deepEqual(idsOf(await next.take(2)), ['m2', 'm3']);
  });

  check('receive: a stop ends it while it waits (C111)', !finite || 'the source does not wait for more', async run => {
    await run.send('m1');
    const receiver = await run.start();
    const [first] = await receiver.take(1);
    const stop = new AbortController();
    const waiting = first!.lane.receive(10, stop.signal);
    stop.abort();
    assert.deepEqual(await run.within(waiting, 'receive to end'), []);
  });

  check('receive: a finite source ends by itself', finite || 'the source never ends', async run => {
    await run.send('m1', 'm2');
    const receiver = await run.start();
    await settleAll(await receiver.take(2));
    await receiver.ended();
  });
}

function numbered(n: number): string[] {
  return Array.from({ length: n }, (_, i) => `m${i + 1}`);
}
