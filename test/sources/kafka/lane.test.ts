import { expect, test } from 'vitest';
import type { Fetched, KafkaRecord } from '../../../src/sources/kafka/client.ts';
import { KafkaLane } from '../../../src/sources/kafka/lane.ts';

const at = { topic: 't', partition: 3 };
const never = new AbortController().signal;

function record(offset: bigint): KafkaRecord {
  return { offset, key: null, value: Buffer.from(String(offset)), timestampMs: 0, headers: {} };
}

function fetched(from: bigint, ...offsets: readonly bigint[]): Fetched {
  return { ...at, from, records: offsets.map(record), next: (offsets.at(-1) ?? from - 1n) + 1n, end: undefined };
}

/** A lane, and what it asked of its owner. */
function laneWith({ maxBuffered = 100, fromEarliest = true, positioned = false } = {}) {
  const asked: string[] = [];
  const owner = {
    pause: () => void asked.push('pause'),
    resume: () => void asked.push('resume'),
    seek: (_: unknown, offset: bigint) => void asked.push(`seek ${offset}`),
    inspect: () => Promise.reject(new Error('not asked here')),
    reopen: () => void asked.push('reopen'),
    settled: () => void asked.push('settled'),
    failed: (error: unknown) => void asked.push(`failed: ${(error as { code: string }).code}`),
    replaced: ({ end }: Fetched) => void asked.push(`replaced by one that ends at ${end}`),
  };
  return {
    lane: new KafkaLane(at, owner, {
      maxBuffered,
      typeHeader: 'type',
      fromEarliest,
      consumer: 'pay',
      positioned,
    }),
    asked,
  };
}

const offsets = (deliveries: readonly { offset?: bigint | undefined }[]) => deliveries.map(({ offset }) => offset);

test('C58: an offset that a client hands over twice is one delivery, in flight or done', async () => {
  const { lane, asked } = laneWith();
  lane.fetched(fetched(50n, 50n, 51n, 52n));
  const first = await lane.receive(10, never);
  lane.fetched(fetched(51n, 51n, 52n, 53n));
  const second = await lane.receive(10, never);
  await lane.settle([...first, ...second].map(delivery => ({ delivery, settle: 'ack' })));
  lane.fetched(fetched(52n, 52n, 53n, 54n));
  expect(offsets(first)).toEqual([50n, 51n, 52n]);
  expect(offsets(second)).toEqual([53n]);
  expect(offsets(await lane.receive(10, never))).toEqual([54n]);
  expect(asked).toEqual(['settled']);
});

test('a fetch that begins behind the next offset would let a commit pass over what is missing: it is asked for again', async () => {
  const { lane, asked } = laneWith();
  lane.fetched(fetched(10n, 10n, 11n));
  lane.fetched(fetched(20n, 20n, 21n));
  expect(asked).toEqual(['seek 12']);
  lane.fetched(fetched(12n, 20n));
  expect(offsets(await lane.receive(10, never))).toEqual([10n, 11n, 20n]);
});

test('a log that ends before what was read is another log: nothing of it is taken for a copy', async () => {
  const { lane, asked } = laneWith();
  lane.fetched(fetched(10n, 10n, 11n));
  lane.fetched({ ...fetched(0n, 0n, 1n), end: 2n });
  expect(asked).toEqual(['replaced by one that ends at 2']);
  expect(offsets(await lane.receive(10, never))).toEqual([10n, 11n]);
});

const passedOver = (next: bigint): Fetched => ({ ...at, from: undefined, records: [], next, end: undefined });

test('records that nobody may read are passed over: what follows them continues what was before them', async () => {
  const { lane, asked } = laneWith();
  lane.fetched(fetched(10n, 10n, 11n));
  lane.fetched(passedOver(15n));
  lane.fetched(passedOver(20n));
  lane.fetched(fetched(20n, 21n));
  expect(asked).toEqual([]);
  expect(offsets(await lane.receive(10, never))).toEqual([10n, 11n, 21n]);
});

test('such records in front of what the client was sent back to: it is sent back once, and then believed', async () => {
  const { lane, asked } = laneWith();
  lane.fetched(fetched(10n, 10n, 11n));
  lane.fetched(fetched(20n, 20n));
  lane.fetched(passedOver(16n));
  lane.fetched(passedOver(20n));
  lane.fetched(fetched(20n, 20n));
  expect(asked).toEqual(['seek 12']);
  expect(offsets(await lane.receive(10, never))).toEqual([10n, 11n, 20n]);
});

test('what retention has deleted meanwhile: asked for again, then another lane goes on with what is left', () => {
  const { lane, asked } = laneWith();
  lane.fetched(fetched(10n, 10n, 11n));
  for (let i = 0; i < 4; i++) lane.fetched({ ...fetched(100n, 100n), end: 200n });
  expect(asked).toEqual(['seek 12', 'seek 12', 'seek 12', 'replaced by one that ends at 200']);
});

test('the same from the latest: going on would skip what is there, so it stops and says why', () => {
  const { lane, asked } = laneWith({ fromEarliest: false });
  lane.fetched(fetched(10n, 10n, 11n));
  for (let i = 0; i < 4; i++) lane.fetched(fetched(100n, 100n));
  expect(asked).toEqual(['seek 12', 'seek 12', 'seek 12', 'failed: NT_SOURCE_DOWN']);
});

test('a lane that takes over begins where the earlier one had not settled, whatever was fetched for that one', async () => {
  const { lane: earlier } = laneWith();
  earlier.fetched(fetched(10n, 10n, 11n, 12n));
  const [first] = await earlier.receive(1, never);
  await earlier.settle([{ delivery: first!, settle: 'ack' }]);
  const { lane, asked } = laneWith();
  lane.beginAt(earlier.unsettledFrom!);
  lane.fetched(passedOver(50n));
  lane.fetched(fetched(13n, 13n));
  expect(await Promise.race([lane.receive(10, never), 'nothing'])).toBe('nothing');
  lane.fetched(fetched(11n, 11n, 12n, 13n));
  expect(asked).toEqual(['seek 11', 'seek 11']);
  expect(lane.uncommitted).toBe(11n);
});

test('a full buffer pauses the partition, a half empty one resumes it', async () => {
  const { lane, asked } = laneWith({ maxBuffered: 4 });
  lane.fetched(fetched(0n, 0n, 1n, 2n, 3n, 4n));
  expect(asked).toEqual(['pause']);
  await lane.receive(3, never);
  expect(asked).toEqual(['pause']);
  await lane.receive(1, never);
  expect(asked).toEqual(['pause', 'resume']);
});

test('C52, C55: a lane that is gone hands out nothing, settles nothing and commits nothing', async () => {
  const { lane, asked } = laneWith();
  lane.fetched(fetched(0n, 0n, 1n));
  const taken = await lane.receive(1, never);
  lane.revoke();
  await lane.settle(taken.map(delivery => ({ delivery, settle: 'ack' })));
  lane.fetched(fetched(2n, 2n));
  expect(await lane.receive(10, never)).toEqual([]);
  expect(lane.uncommitted).toBeUndefined();
  expect(asked).toEqual([]);
});

test('a tombstone is a message without a value, a missing key is none, bytes that are not UTF-8 stay what they are', async () => {
  const { lane } = laneWith();
  const bytes = Buffer.of(0xff, 0x00);
  lane.fetched({
    ...at,
    from: 0n,
    next: 2n,
    end: 5n,
    records: [
      { ...record(0n), value: null, headers: { type: 'gone' } },
      { ...record(1n), key: bytes },
    ],
  });
  const [tombstone, odd] = await lane.receive(2, never);
  expect(tombstone).toMatchObject({ body: { value: null }, key: undefined, type: 'gone', position: 't/3/0' });
  expect(odd).toMatchObject({ key: `base64:${bytes.toString('base64')}`, keyBytes: bytes, body: undefined });
  expect(lane.lag).toBe(5);
});

test('an offset that somebody else has set becomes ours before anything is handled, be it the same or a later one', async () => {
  const { lane, asked } = laneWith({ positioned: true });
  lane.committed(5n);
  lane.log!.recorded(5n);
  lane.log!.beginAt(5n);
  expect(lane.uncommitted).toBeUndefined();
  let ours = false;
  const claimed = lane.log!.claim().then(() => {
    ours = true;
  });
  expect(asked.at(-1)).toBe('settled');
  expect(lane.uncommitted).toBe(5n);
  await Promise.resolve();
  expect(ours).toBe(false);
  lane.committed(5n);
  await claimed;
  expect(lane.uncommitted).toBeUndefined();
  const waiting = lane.log!.claim();
  lane.revoke();
  await waiting;
});

test('the record before the position is looked at once more, and the group is never told less than the position', async () => {
  const { lane } = laneWith({ positioned: true });
  lane.log!.recorded(5n);
  lane.log!.beginAt(4n);
  expect(lane.uncommitted).toBe(5n);
  lane.fetched(fetched(4n, 4n, 5n));
  expect(lane.uncommitted).toBe(5n);
  const [looked, next] = await lane.receive(2, never);
  await lane.settle([{ delivery: looked!, settle: 'ack' }]);
  lane.log!.recorded(6n);
  await lane.settle([{ delivery: next!, settle: 'ack' }]);
  expect(lane.uncommitted).toBe(6n);
  expect(lane.metadata).toBe('nevertwice position=6 consumer=pay');
});
