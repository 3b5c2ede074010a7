import { expect, test } from 'vitest';
import { readable } from '../../../src/sources/kafka/clients/platformatic/records.ts';

const LOG_APPEND_TIME = 8;
const TRANSACTIONAL = 16;
const CONTROL = 32;
const ABORT = Buffer.from([0, 0, 0, 0]);
const COMMIT = Buffer.from([0, 0, 0, 1]);

interface Shape {
  readonly attributes?: number;
  readonly producerId?: bigint;
  readonly lastOffsetDelta?: number;
  readonly key?: Buffer;
}

/** A batch with a record at each of the offsets. */
function batch(offsets: readonly number[], shape: Shape = {}) {
  const [first = 0] = offsets;
  return {
    firstOffset: BigInt(first),
    lastOffsetDelta: shape.lastOffsetDelta ?? offsets.at(-1)! - first,
    partitionLeaderEpoch: 3,
    attributes: shape.attributes ?? 0,
    firstTimestamp: 1_000n,
    maxTimestamp: 5_000n,
    producerId: shape.producerId ?? -1n,
    records: offsets.map(offset => ({
      offsetDelta: offset - first,
      timestampDelta: BigInt(offset - first),
      key: shape.key ?? null,
      value: Buffer.from(String(offset)),
      headers: [],
    })),
  };
}

const inTransaction = (producerId: bigint, ...offsets: number[]) =>
  batch(offsets, { producerId, attributes: TRANSACTIONAL });
const marker = (producerId: bigint, offset: number, key: Buffer) =>
  batch([offset], { producerId, attributes: TRANSACTIONAL | CONTROL, key });

function read(
  from: number,
  records: readonly ReturnType<typeof batch>[] | null,
  abortedTransactions: readonly { producerId: bigint; firstOffset: bigint }[] | null = null,
) {
  const { records: given, next } = readable(
    { partitionIndex: 0, errorCode: 0, highWatermark: 99n, lastStableOffset: 99n, abortedTransactions, records },
    BigInt(from),
  );
  return { offsets: given.map(({ offset }) => Number(offset)), next: Number(next), given };
}

test('a batch that begins before what was asked for gives what was asked for', () => {
  expect(read(12, [batch([10, 11, 12, 13]), batch([14])])).toMatchObject({ offsets: [12, 13, 14], next: 15 });
});

test('nothing was fetched: the next is what was asked for', () => {
  expect(read(7, null)).toMatchObject({ offsets: [], next: 7 });
});

test('compaction took the end of a batch, or all of it: the next is behind it all the same', () => {
  expect(read(0, [batch([0, 2], { lastOffsetDelta: 5 })])).toMatchObject({ offsets: [0, 2], next: 6 });
  expect(read(6, [{ ...batch([6]), lastOffsetDelta: 3, records: [] }])).toMatchObject({ offsets: [], next: 10 });
});

test('only the producer whose transaction was aborted is left out, and only up to its marker', () => {
  const batches = [
    batch([0]),
    inTransaction(1n, 1, 2),
    inTransaction(2n, 3),
    inTransaction(1n, 4),
    marker(1n, 5, ABORT),
    marker(2n, 6, COMMIT),
    inTransaction(1n, 7),
    marker(1n, 8, COMMIT),
  ];
  expect(read(0, batches, [{ producerId: 1n, firstOffset: 1n }])).toMatchObject({ offsets: [0, 3, 7], next: 9 });
});

test('the marker is in a later fetch, the first record in an earlier one: what is between is left out', () => {
  const aborted = [{ producerId: 1n, firstOffset: 1n }];
  expect(read(1, [inTransaction(1n, 1, 2)], aborted)).toMatchObject({ offsets: [], next: 3 });
  expect(read(3, [inTransaction(1n, 3), marker(1n, 4, ABORT)], aborted)).toMatchObject({ offsets: [], next: 5 });
});

test('two transactions of a producer are aborted, named in any order', () => {
  const batches = [
    inTransaction(1n, 0),
    marker(1n, 1, ABORT),
    inTransaction(1n, 2),
    marker(1n, 3, COMMIT),
    inTransaction(1n, 4),
    marker(1n, 5, ABORT),
  ];
  const aborted = [
    { producerId: 1n, firstOffset: 4n },
    { producerId: 1n, firstOffset: 0n },
  ];
  expect(read(0, batches, aborted)).toMatchObject({ offsets: [2], next: 6 });
});

test('what a producer writes outside of transactions is not taken for a part of one', () => {
  const plain = batch([1], { producerId: 1n });
  expect(read(0, [inTransaction(1n, 0), plain], [{ producerId: 1n, firstOffset: 0n }])).toMatchObject({ offsets: [1] });
});

test("the time is the producer's, or the broker's where the topic says so", () => {
  expect(read(0, [batch([0, 1])]).given.map(({ timestampMs }) => timestampMs)).toEqual([1_000, 1_001]);
  const appended = batch([0, 1], { attributes: LOG_APPEND_TIME });
  expect(read(0, [appended]).given.map(({ timestampMs }) => timestampMs)).toEqual([5_000, 5_000]);
  const none = { ...batch([0]), firstTimestamp: -1n };
  expect(read(0, [none]).given).toMatchObject([{ timestampMs: undefined, leaderEpoch: 3 }]);
});
