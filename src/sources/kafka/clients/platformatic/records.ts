import type { KafkaRecord } from '../../client.ts';

/** What a fetch gives of one partition, as `@platformatic/kafka` decodes it. */
export interface FetchedPartition {
  readonly partitionIndex: number;
  readonly errorCode: number;
  readonly highWatermark: bigint;
  readonly lastStableOffset: bigint;
  readonly abortedTransactions?: readonly { readonly producerId: bigint; readonly firstOffset: bigint }[] | null;
  readonly records?: readonly RecordBatch[] | null;
}

export interface RecordBatch {
  readonly firstOffset: bigint;
  readonly lastOffsetDelta: number;
  readonly partitionLeaderEpoch: number;
  readonly attributes: number;
  readonly firstTimestamp: bigint;
  readonly maxTimestamp: bigint;
  readonly producerId: bigint;
  readonly records: readonly {
    readonly offsetDelta: number;
    readonly timestampDelta: bigint;
    readonly key: Buffer | null;
    readonly value: Buffer | null;
    readonly headers: readonly (readonly [Buffer, Buffer | null])[];
  }[];
}

/** Bits of a batch's attributes. */
const LOG_APPEND_TIME = 1 << 3;
const TRANSACTIONAL = 1 << 4;
const CONTROL = 1 << 5;
/** The type in the key of a control record, behind the key's version. */
const ABORT = 0;

/**
 * The records that may be read from an offset on, and the offset behind all that was fetched. Batches begin where the
 * producer began them, which may be before it.
 *
 * The broker names the transactions that end in an abort, and hands out their records all the same. A transaction spans
 * from the named offset to the producer's next marker, which may be in a later fetch; until then all of the producer is its.
 */
export function readable(fetched: FetchedPartition, from: bigint): { records: KafkaRecord[]; next: bigint } {
  const records: KafkaRecord[] = [];
  let next = from;
  const toAbort = (fetched.abortedTransactions ?? []).toSorted((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1));
  const aborting = new Set<bigint>();
  for (const batch of fetched.records ?? []) {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta);
    while (toAbort[0] !== undefined && toAbort[0].firstOffset <= last) aborting.add(toAbort.shift()!.producerId);
    if ((batch.attributes & CONTROL) !== 0) {
      if (batch.records[0]?.key?.readInt16BE(2) === ABORT) aborting.delete(batch.producerId);
    } else if ((batch.attributes & TRANSACTIONAL) === 0 || !aborting.has(batch.producerId)) {
      addRecords(records, batch, from);
    }
    if (last >= next) next = last + 1n;
  }
  return { records, next };
}

function addRecords(records: KafkaRecord[], batch: RecordBatch, from: bigint): void {
  const { firstOffset, firstTimestamp, maxTimestamp, partitionLeaderEpoch: leaderEpoch } = batch;
  const appendTime = (batch.attributes & LOG_APPEND_TIME) !== 0 ? Number(maxTimestamp) : undefined;
  for (const { offsetDelta, timestampDelta, key, value, headers } of batch.records) {
    const offset = firstOffset + BigInt(offsetDelta);
    if (offset < from) continue;
    const timestampMs = appendTime ?? Number(firstTimestamp + timestampDelta);
    records.push({
      offset,
      key,
      value,
      timestampMs: timestampMs >= 0 ? timestampMs : undefined,
      headers,
      leaderEpoch,
    });
  }
}
