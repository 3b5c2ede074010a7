import { expect, test } from 'vitest';
import { header } from '../../src/identity/extractors.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Delivery } from '../../src/ports/delivery.ts';
import type { Lane } from '../../src/ports/source.ts';
import { memoryBroker, memorySource } from '../../src/sources/memory/index.ts';
import { ack, idsOf, keptPositions, open, readAll } from './reading.ts';

const { signal } = new AbortController();

/** A clock that stands until it is moved. */
function manualClock(): Clock & { advance(ms: number): void } {
  let nowMs = 0;
  const sleepers = new Set<{ untilMs: number; wake: () => void }>();
  return {
    monotonicMs: () => nowMs,
    random: () => 0,
    sleep: (ms, stop) =>
      new Promise<void>(resolve => {
        const sleeper = { untilMs: nowMs + ms, wake: resolve };
        sleepers.add(sleeper);
        stop?.addEventListener('abort', () => sleepers.delete(sleeper) && resolve(), { once: true });
      }),
    advance(ms) {
      nowMs += ms;
      for (const sleeper of sleepers) if (sleeper.untilMs <= nowMs && sleepers.delete(sleeper)) sleeper.wake();
    },
  };
}

function filled(count: number, partitions = 1) {
  const broker = memoryBroker({ partitions });
  for (let i = 0; i < count; i++) broker.send({ id: `m${i}`, body: i });
  return broker;
}

/** What a receive gives within this turn of the event loop; undefined when it waits. */
async function atOnce(lane: Lane, max = 100): Promise<readonly Delivery[] | undefined> {
  const stop = new AbortController();
  const receiving = lane.receive(max, stop.signal);
  const waits = new Promise<undefined>(resolve => setImmediate(resolve, undefined));
  const result = await Promise.race([receiving, waits]);
  stop.abort();
  await receiving;
  return result;
}

test('a message arrives as it was sent', async () => {
  const broker = memoryBroker({ topic: 'payments', partitions: 2 });
  const time = new Date(1714557600000);
  const sent = broker.send({
    id: 'm1',
    key: 'k',
    type: 'deposit',
    time,
    headers: { tag: ['x', 'y'] },
    body: { amount: 500 },
    partition: 1,
  });
  expect(sent).toEqual({ partition: 1, offset: 0n, position: 'payments/1/0' });
  const [delivery] = await readAll(broker.source({ finite: true }));
  expect(delivery).toMatchObject({
    lane: 'payments/1',
    position: 'payments/1/0',
    attempt: 1,
    key: 'k',
    type: 'deposit',
    time,
    body: { value: { amount: 500 } },
    topic: 'payments',
    partition: 1,
    offset: 0n,
  });
  expect(delivery?.headers.get('message-id')).toBe('m1');
  expect(delivery?.headers.getAll('tag')).toEqual(['x', 'y']);
});

test('every delivery has a body of its own: neither sender nor handler can change the next one', async () => {
  const broker = memoryBroker({ partitions: 1 });
  const body = { items: [1] };
  const bytes = Uint8Array.of(1);
  broker.send({ id: 'm1', body });
  broker.send({ id: 'm2', value: bytes });
  body.items.push(2);
  bytes[0] = 2;
  for (const consumer of ['a', 'b']) {
    const [first, second] = await readAll(broker.source({ finite: true, group: consumer }));
    expect(first?.body?.value).toEqual({ items: [1] });
    expect([...(second!.value as Uint8Array)]).toEqual([1]);
    (first!.body!.value as { items: number[] }).items.push(3);
    (second!.value as Uint8Array)[0] = 3;
  }
});

test('what cannot be sent is refused', () => {
  const broker = memoryBroker({ partitions: 2 });
  const config = expect.objectContaining({ code: 'NT_CONFIG' });
  expect(() => broker.send({ body: { f: () => 1 } })).toThrow(config);
  expect(() => broker.send({ body: 1, value: '1' })).toThrow(config);
  expect(() => broker.send({ body: 1, partition: 2 })).toThrow(config);
  expect(() => memoryBroker({ partitions: 0 })).toThrow(config);
  expect(broker.pending('wallet')).toBe(0);
});

test('C29: an id beside another message-id header is ambiguous', async () => {
  const [delivery] = await readAll(memorySource([{ id: 'a', headers: [['Message-ID', 'b']] }]));
  expect(() => header()(delivery as never)).toThrow(/several different values/);
});

test('messages of a key share a partition; those without one take turns', () => {
  const broker = memoryBroker({ partitions: 4 });
  const of = (key: string) => broker.send({ key }).partition;
  const keys = Array.from({ length: 100 }, (_, i) => `account-${i}`);
  const first = keys.map(of);
  expect(keys.map(of)).toEqual(first);
  expect(new Set(first).size).toBe(4);
  expect(Array.from({ length: 8 }, () => broker.send({}).partition)).toEqual([0, 1, 2, 3, 0, 1, 2, 3]);
});

test('keys that are not UTF-8 stay apart', async () => {
  const source = memorySource([{ key: Uint8Array.of(0xff) }, { key: Uint8Array.of(0xfe) }, { key: '\ufffd' }]);
  expect(new Set((await readAll(source)).map(({ key }) => key)).size).toBe(3);
});

test('groups read on their own, each from the first message', async () => {
  const broker = filled(2);
  expect(idsOf(await readAll(broker.source({ group: 'a', finite: true })))).toEqual(['m0', 'm1']);
  expect(idsOf(await readAll(broker.source({ group: 'b', finite: true })))).toEqual(['m0', 'm1']);
  expect(idsOf(await readAll(broker.source({ group: 'a', finite: true })))).toEqual([]);
});

test('the lag is what the group has not settled', async () => {
  const source = filled(3).source();
  expect(source.lag?.()).toBeUndefined();
  const run = await open(source, 1);
  const [lane] = run.lanes;
  await ack(lane!, ...(await lane!.receive(2, signal)));
  expect(source.lag?.()).toEqual({ amount: 1, unit: 'messages' });
  await run.close();
});

test('the group is the consumer unless it is named', async () => {
  const broker = filled(1);
  await readAll(broker.source({ finite: true }));
  expect(broker.pending('wallet')).toBe(0);
  expect(broker.pending('another')).toBe(1);
});

test('memorySource gives the list in order and ends, also with messages left for later', async () => {
  const source = memorySource([{ id: 'a' }, { id: 'b' }, { id: 'c' }]);
  expect(source.capabilities).toEqual({ retryLater: true, finite: true, readAhead: true });
  const run = await open(source, 1);
  const [lane] = run.lanes;
  const [a, b, c] = await lane!.receive(3, signal);
  await ack(lane!, a!, c!);
  await lane!.settle([{ delivery: b!, settle: 'retry-later', delayMs: 1 }]);
  const [again] = await lane!.receive(3, signal);
  expect(again).toMatchObject({ attempt: 2, position: 'memory/0/1' });
  const ended = lane!.receive(3, signal);
  await ack(lane!, again!);
  expect(await ended).toEqual([]);
  await run.close();
});

test('a finite source goes on with what is sent while it runs, in a new lane if that one has ended', async () => {
  const broker = filled(2, 2);
  const iterator = broker
    .source({ finite: true })
    .receive({ signal, consumer: 'wallet', positions: keptPositions() })
    [Symbol.asyncIterator]();
  const [first, second]: Lane[] = [(await iterator.next()).value, (await iterator.next()).value];
  const [m0] = await first!.receive(1, signal);
  await ack(first!, m0!);
  expect(await first!.receive(1, signal)).toEqual([]);
  const third = iterator.next();
  broker.send({ id: 'late', partition: 0 });
  const late: Lane = (await third).value;
  expect(late.id).toBe('memory/0');
  await ack(late, ...(await late.receive(1, signal)));
  await ack(second!, ...(await second!.receive(1, signal)));
  expect(await iterator.next()).toEqual({ done: true, value: undefined });
  await iterator.return?.();
});

test('a group spreads its partitions over its members, and gives them back when one leaves', async () => {
  const broker = filled(8, 4);
  const one = await open(broker.source(), 4);
  const two = await open(broker.source(), 2);
  expect(one.lanes.map(({ revoked }) => revoked.aborted)).toEqual([true, true, true, true]);
  expect(two.lanes.map(({ id }) => id)).toEqual(['memory/1', 'memory/3']);
  await two.close();
  expect(two.lanes.map(({ revoked }) => revoked.aborted)).toEqual([true, true]);
  const three = await open(broker.source(), 2);
  await one.close();
  await three.close();
});

test('C52, C55: what a revoked owner had comes to the next one in order, one attempt on; its acks do nothing', async () => {
  const broker = filled(6);
  const one = await open(broker.source(), 1);
  const [lane] = one.lanes;
  const taken = await lane!.receive(4, signal);
  await ack(lane!, taken[0]!, taken[2]!);
  expect(broker.committed('wallet')).toEqual([1n]);
  await one.close();
  await ack(lane!, ...taken);
  expect(broker.pending('wallet')).toBe(4);
  const two = await open(broker.source(), 1);
  const again = await two.lanes[0]!.receive(10, signal);
  expect(again.map(({ position, attempt }) => [position, attempt])).toEqual([
    ['memory/0/1', 2],
    ['memory/0/3', 2],
    ['memory/0/4', 1],
    ['memory/0/5', 1],
  ]);
  await two.close();
});

test('rebalance gives every partition to another member, or a member its own ones back', async () => {
  const broker = memoryBroker({ partitions: 2 });
  const alone = await open(broker.source(), 2);
  const iterators = [1, 2].map(() =>
    broker
      .source({ group: 'pair' })
      .receive({ signal, consumer: 'pair', positions: keptPositions() })
      [Symbol.asyncIterator](),
  );
  const [a, b] = iterators;
  await a!.next();
  await b!.next();
  expect((await a!.next()).value.id).toBe('memory/0');
  broker.rebalance();
  expect((await a!.next()).value.id).toBe('memory/1');
  expect((await b!.next()).value.id).toBe('memory/0');
  expect(alone.lanes.every(({ revoked }) => revoked.aborted)).toBe(true);
  await a!.return?.();
  await b!.return?.();
  await alone.close();
});

test('a stopping member keeps its lanes until it has finished, and gets no new ones', async () => {
  const broker = filled(4, 2);
  const one = await open(broker.source(), 2);
  const [lane] = one.lanes;
  const [m0] = await lane!.receive(1, signal);
  one.stop.abort();
  expect(lane!.revoked.aborted).toBe(false);
  await ack(lane!, m0!);
  expect(broker.pending('wallet')).toBe(3);
  const two = await open(broker.source(), 2);
  expect(lane!.revoked.aborted).toBe(true);
  expect(two.lanes.map(({ id }) => id)).toEqual(['memory/0', 'memory/1']);
  await two.close();
  await one.close();
});

test('a finite source has no lane for a partition that holds nothing to do', async () => {
  const broker = memoryBroker({ partitions: 3 });
  broker.send({ id: 'm0', partition: 1 });
  const run = broker.source({ finite: true }).receive({ signal, consumer: 'wallet', positions: keptPositions() });
  const ids: string[] = [];
  for await (const lane of run) {
    ids.push(lane.id);
    await ack(lane, ...(await lane.receive(1, signal)));
  }
  expect(ids).toEqual(['memory/1']);
});

test('retry-later comes exactly when it is due, while others go on, and over a rebalance', async () => {
  const clock = manualClock();
  const broker = memoryBroker({ partitions: 1, clock });
  for (const id of ['m0', 'm1', 'm2']) broker.send({ id });
  const run = await open(broker.source(), 1);
  const [lane] = run.lanes;
  const [m0, m1] = await lane!.receive(2, signal);
  await lane!.settle([
    { delivery: m0!, settle: 'retry-later', delayMs: 1000 },
    { delivery: m1!, settle: 'retry-later', delayMs: 500 },
  ]);
  expect(broker.committed('wallet')).toEqual([0n]);
  expect(idsOf((await atOnce(lane!))!)).toEqual(['m2']);
  clock.advance(499);
  expect(await atOnce(lane!)).toBeUndefined();
  const waiting = lane!.receive(10, signal);
  clock.advance(1);
  expect(idsOf(await waiting)).toEqual(['m1']);
  await run.close();
  const next = await open(broker.source(), 1);
  expect(idsOf((await atOnce(next.lanes[0]!))!)).toEqual(['m1', 'm2']);
  clock.advance(499);
  expect(await atOnce(next.lanes[0]!)).toBeUndefined();
  clock.advance(1);
  expect((await atOnce(next.lanes[0]!))!.map(({ position, attempt }) => [position, attempt])).toEqual([
    ['memory/0/0', 2],
  ]);
  await next.close();
});

test('a source without retryLater keeps the delivery unsettled', async () => {
  const broker = filled(1);
  const run = await open(broker.source({ retryLater: false }), 1);
  const [lane] = run.lanes;
  const [m0] = await lane!.receive(1, signal);
  await lane!.settle([{ delivery: m0!, settle: 'retry-later', delayMs: 0 }]);
  expect(await atOnce(lane!)).toBeUndefined();
  expect(broker.pending('wallet')).toBe(1);
  await run.close();
});

test('no timer is left when a receive ends before a long delay', async () => {
  const broker = filled(1);
  const run = await open(broker.source(), 1);
  const [lane] = run.lanes;
  const [m0] = await lane!.receive(1, signal);
  await lane!.settle([{ delivery: m0!, settle: 'retry-later', delayMs: 30 * 24 * 3600 * 1000 }]);
  const timers = () => process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length;
  const before = timers();
  expect(await atOnce(lane!)).toBeUndefined();
  expect(timers()).toBe(before);
  await run.close();
});

test('C58: a redelivery of what is in flight is a second delivery of the same offset', async () => {
  const broker = filled(2);
  const run = await open(broker.source(), 1);
  const [lane] = run.lanes;
  const [m0, m1] = await lane!.receive(2, signal);
  expect(broker.redeliver('m0')).toBe(1);
  const [copy] = await lane!.receive(2, signal);
  expect(copy).toMatchObject({ position: m0!.position, attempt: 2 });
  await ack(lane!, m0!, m1!);
  expect(broker.pending('wallet')).toBe(1);
  await ack(lane!, copy!);
  expect(broker.committed('wallet')).toEqual([2n]);
  await run.close();
});

test('redeliver brings back what was settled, or makes a copy at a new offset', async () => {
  const broker = filled(3);
  await readAll(broker.source({ finite: true }));
  expect(broker.redeliver(({ offset }) => offset !== 1n)).toBe(2);
  const again = await readAll(broker.source({ finite: true }));
  expect(again.map(({ position, attempt }) => [position, attempt])).toEqual([
    ['memory/0/0', 2],
    ['memory/0/2', 2],
  ]);
  expect(broker.redeliver('m1', { as: 'resend' })).toBe(1);
  const [copy] = await readAll(broker.source({ finite: true }));
  expect(copy).toMatchObject({ position: 'memory/0/3', attempt: 1 });
  expect(idsOf([copy!])).toEqual(['m1']);
  expect(broker.redeliver('unknown')).toBe(0);
});

test('redeliver wakes a reader that waits', async () => {
  const broker = filled(1);
  const run = await open(broker.source(), 1);
  const [lane] = run.lanes;
  await ack(lane!, ...(await lane!.receive(1, signal)));
  const waiting = lane!.receive(1, signal);
  broker.redeliver('m0');
  expect(idsOf(await waiting)).toEqual(['m0']);
  await run.close();
});

test('C70: lost acks leave deliveries in flight until they expire or move', async () => {
  const broker = filled(3);
  const run = await open(broker.source(), 1);
  const [lane] = run.lanes;
  broker.loseAcks(2);
  await ack(lane!, ...(await lane!.receive(3, signal)));
  expect(broker.pending('wallet')).toBe(2);
  expect(await atOnce(lane!)).toBeUndefined();
  broker.expire();
  const again = await lane!.receive(3, signal);
  expect(again.map(({ position, attempt }) => [position, attempt])).toEqual([
    ['memory/0/0', 2],
    ['memory/0/1', 2],
  ]);
  await ack(lane!, ...again);
  expect(broker.pending('wallet')).toBe(0);
  await run.close();
});

test('C71: after expire the old owner still works, and its late ack settles nothing', async () => {
  const broker = filled(1);
  const run = await open(broker.source(), 1);
  const [lane] = run.lanes;
  const [old] = await lane!.receive(1, signal);
  broker.expire();
  expect(lane!.revoked.aborted).toBe(false);
  await ack(lane!, old!);
  const [copy] = await lane!.receive(1, signal);
  expect(copy).toMatchObject({ position: old!.position, attempt: 2 });
  await ack(lane!, old!);
  expect(broker.pending('wallet')).toBe(1);
  await ack(lane!, copy!);
  expect(broker.pending('wallet')).toBe(0);
  await run.close();
});

test('drained resolves when everything is settled, and not before', async () => {
  const broker = memoryBroker({ partitions: 1 });
  await broker.drained();
  broker.send({ id: 'm0' });
  let drained = false;
  const all = broker.drained().then(() => {
    drained = true;
  });
  const one = broker.drained('wallet');
  const run = await open(broker.source(), 1);
  const [m0] = await run.lanes[0]!.receive(1, signal);
  await new Promise(setImmediate);
  expect(drained).toBe(false);
  await ack(run.lanes[0]!, m0!);
  await Promise.all([all, one]);
  await run.close();
});

test('many lanes may wait on one signal without a warning', async () => {
  const warned: Error[] = [];
  const note = (warning: Error) => warned.push(warning);
  process.on('warning', note);
  const broker = memoryBroker({ partitions: 32 });
  const run = await open(broker.source(), 32);
  const waiting = run.lanes.map(lane => lane.receive(1, run.stop.signal));
  await new Promise(setImmediate);
  run.stop.abort();
  expect(await Promise.all(waiting)).toEqual(run.lanes.map(() => []));
  await run.close();
  await new Promise(setImmediate);
  process.off('warning', note);
  expect(warned).toEqual([]);
});
