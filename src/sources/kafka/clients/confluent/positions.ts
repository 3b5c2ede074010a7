import { NevertwiceError } from '../../../../errors.ts';
import { type Fetched, type KafkaRecord, laneIdOf, type TopicPartition } from '../../client.ts';
import type { InnerMessage } from './client.ts';

/** The reader has come to the end of a partition: everything in front of `offset` was given or may not be read. */
export interface PartitionEnd extends TopicPartition {
  readonly offset: number;
}

interface Position {
  /** The next to be read; undefined until the broker has said where the partition begins or ends. */
  next: bigint | undefined;
  /** Where a seek is to go that is on its way: what comes meanwhile was asked for before it. */
  heldFor: bigint | undefined;
}

/**
 * Where each partition that is ours has been read to.
 *
 * librdkafka gives the records of a partition without a hole, in order, from where it was told to begin, and does not say
 * which offsets it has passed over (aborted records, markers, what compaction took). So a batch begins where the last one
 * ended, whatever its first offset is.
 */
export class Positions {
  readonly #positions = new Map<string, Position>();

  /** Ours from now on, to be read from `next` where that is known. */
  add(at: TopicPartition, next: bigint | undefined): void {
    this.#positions.set(laneIdOf(at), { next, heldFor: undefined });
  }

  delete(at: TopicPartition): void {
    this.#positions.delete(laneIdOf(at));
  }

  has(at: TopicPartition): boolean {
    return this.#positions.has(laneIdOf(at));
  }

  /** Nothing of the partition counts until it has been `sought`. */
  hold(at: TopicPartition, next: bigint): void {
    const position = this.#positions.get(laneIdOf(at));
    if (position !== undefined) position.heldFor = next;
  }

  heldFor(at: TopicPartition): bigint | undefined {
    return this.#positions.get(laneIdOf(at))?.heldFor;
  }

  /** The reader stands where it was held for. */
  sought(at: TopicPartition): void {
    const next = this.heldFor(at);
    if (next !== undefined) this.add(at, next);
  }

  /** One call's messages, and the ends it came to, as fetches: one a partition. `endOf` gives the end of a partition's log. */
  fetchesOf(
    messages: readonly InnerMessage[],
    ends: readonly PartitionEnd[],
    endOf: (at: TopicPartition) => bigint | undefined,
  ): readonly Fetched[] {
    const fetches = [...byPartition(messages)].flatMap(([id, ofOne]) => this.#fetchOf(id, ofOne, endOf) ?? []);
    return [...fetches, ...ends.flatMap(end => this.#endOf(end) ?? [])];
  }

  #fetchOf(
    id: string,
    messages: readonly InnerMessage[],
    endOf: (at: TopicPartition) => bigint | undefined,
  ): Fetched | undefined {
    const position = this.#positions.get(id);
    const [first] = messages;
    if (position === undefined || position.heldFor !== undefined || first === undefined) return undefined;
    const { topic, partition } = first;
    const records = messages.map(recordOf);
    const begins = records[0]!.offset;
    // Below it, the log is another one than before.
    const from = position.next === undefined || begins < position.next ? begins : position.next;
    const next = records.at(-1)!.offset + 1n;
    position.next = next;
    return { topic, partition, from, records, next, end: endOf(first) };
  }

  #endOf({ topic, partition, offset }: PartitionEnd): Fetched | undefined {
    const position = this.#positions.get(laneIdOf({ topic, partition }));
    const end = exact(offset);
    // One that stands in front of records of the same call is not the end any more.
    if (position === undefined || position.heldFor !== undefined || end < (position.next ?? end)) return undefined;
    const from = position.next ?? end;
    position.next = end;
    return { topic, partition, from, records: [], next: end, end };
  }
}

function byPartition(messages: readonly InnerMessage[]): ReadonlyMap<string, readonly InnerMessage[]> {
  const groups = new Map<string, InnerMessage[]>();
  let group: InnerMessage[] = [];
  let last: InnerMessage | undefined;
  for (const message of messages) {
    // They come in runs: this spares the key of nearly every message.
    if (last === undefined || message.partition !== last.partition || message.topic !== last.topic) {
      const id = laneIdOf(message);
      group = groups.get(id) ?? [];
      groups.set(id, group);
    }
    group.push(message);
    last = message;
  }
  return groups;
}

function recordOf({ offset, key, value, timestamp, headers, leaderEpoch }: InnerMessage): KafkaRecord {
  return {
    offset: exact(offset),
    key: key ?? null,
    value,
    timestampMs: timestamp !== undefined && timestamp >= 0 ? timestamp : undefined,
    headers,
    leaderEpoch,
  };
}

/** The client has offsets as doubles; beyond 2^53 two records would have the same one. */
function exact(offset: number): bigint {
  if (Number.isSafeInteger(offset)) return BigInt(offset);
  throw new NevertwiceError(
    'NT_SOURCE_DOWN',
    `offset ${offset} is beyond what this client can tell apart (2^53); use another client for this topic`,
  );
}
