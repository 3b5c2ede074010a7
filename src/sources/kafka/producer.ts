import type { Member, TopicPartition } from './client.ts';

/** A record to be written, as bytes. */
export interface ProducedRecord {
  readonly topic: string;
  /** Left to the client's partitioner when undefined. */
  readonly partition: number | undefined;
  readonly key: Buffer | null;
  /** Null for a tombstone. */
  readonly value: Buffer | null;
  /** In order; names may repeat. */
  readonly headers: readonly (readonly [string, Buffer])[];
}

export interface ProducerOptions {
  readonly transactionalId: string;
  readonly groupId: string;
  /** Of the group whose offsets are committed: the broker refuses those of a member that is no longer one, if the client says who it is. */
  readonly member: Member;
}

export interface Transaction {
  readonly outputs: readonly ProducedRecord[];
  /** The next to be read of the partition that the outputs were made from. */
  readonly offset: TopicPartition & { readonly offset: bigint };
  /** Awaited when the outputs are written and before the commit is asked for; a rejection aborts and is passed on. */
  readonly produced: () => Promise<void>;
}

/** One transaction after the other, and no more than one at a time. */
export interface TransactionalProducer {
  /**
   * Writes the outputs and the offset, and commits both. Rejects with `ProducerFailure`, or with what `produced` rejected
   * with; the producer can go on only after `unwritable`.
   */
  transact(transaction: Transaction): Promise<void>;
  /** Ends the connections. Waits a few seconds at most, and never rejects. */
  close(): Promise<void>;
}

export interface PublisherOptions {
  /** With one, what is published together is there together for those who read committed records, and whoever had the id before is fenced. */
  readonly transactionalId: string | undefined;
}

/** Writes records outside of any group. */
export interface KafkaPublisher {
  /**
   * Resolves once all replicas that are in sync have the records. Rejects with `ProducerFailure`; then some of them may be there,
   * of each key and partition no later one without the earlier ones, and the publisher is done for.
   */
  publish(records: readonly ProducedRecord[]): Promise<void>;
  /** Ends the connections. Waits a few seconds at most, and never rejects. */
  close(): Promise<void>;
}

/**
 * - `fenced`: a later producer has the id, or the broker gave the transaction up because it took too long.
 * - `outdated`: the group says that the member is none, or not of this generation.
 * - `unwritable`: the broker takes none of these records; the transaction was aborted.
 * - `refused`: not allowed, or misconfigured; no other try changes that.
 * - `unknown`: anything else. The transaction may have been committed or not.
 */
export type FailureKind = 'fenced' | 'outdated' | 'unwritable' | 'refused' | 'unknown';

export class ProducerFailure extends Error {
  readonly kind: FailureKind;

  constructor(kind: FailureKind, cause: unknown) {
    super(cause instanceof Error ? cause.message : 'the producer failed', { cause });
    this.name = 'ProducerFailure';
    this.kind = kind;
  }
}

/**
 * Ends a transaction that did not come to its commit, and rejects with what stopped it. Where the producer is to go on
 * afterwards, the abort has to have succeeded.
 */
export async function abortFor(
  failure: unknown,
  transaction: { abort(): Promise<void> },
  failureOf: (error: unknown) => ProducerFailure,
): Promise<never> {
  const goesOn = failure instanceof ProducerFailure && failure.kind === 'unwritable';
  try {
    await transaction.abort();
  } catch (error) {
    if (goesOn) throw failureOf(error);
  }
  throw failure;
}

/**
 * By the broker's numbers, which all clients pass on. INVALID_TXN_STATE (48) is not among them: the broker bumps the epoch
 * of a transaction that it gives up, so a fence never shows as 48. librdkafka gets it on a busy machine when it aborts
 * before its first record has reached the coordinator, and then needs a new producer and nothing else.
 */
const KINDS: ReadonlyMap<unknown, FailureKind> = new Map<unknown, FailureKind>([
  [47, 'fenced'], // INVALID_PRODUCER_EPOCH
  [90, 'fenced'], // PRODUCER_FENCED
  [22, 'outdated'], // ILLEGAL_GENERATION
  [25, 'outdated'], // UNKNOWN_MEMBER_ID
  [27, 'outdated'], // REBALANCE_IN_PROGRESS
  [82, 'outdated'], // FENCED_INSTANCE_ID
  [110, 'outdated'], // FENCED_MEMBER_EPOCH
  [113, 'outdated'], // STALE_MEMBER_EPOCH
  [10, 'unwritable'], // MESSAGE_TOO_LARGE
  [17, 'unwritable'], // INVALID_TOPIC_EXCEPTION
  [18, 'unwritable'], // RECORD_LIST_TOO_LARGE
  [32, 'unwritable'], // INVALID_TIMESTAMP
  [87, 'unwritable'], // INVALID_RECORD
  [29, 'refused'], // TOPIC_AUTHORIZATION_FAILED
  [30, 'refused'], // GROUP_AUTHORIZATION_FAILED
  [31, 'refused'], // CLUSTER_AUTHORIZATION_FAILED
  [50, 'refused'], // INVALID_TRANSACTION_TIMEOUT
  [53, 'refused'], // TRANSACTIONAL_ID_AUTHORIZATION_FAILED
  [58, 'refused'], // SASL_AUTHENTICATION_FAILED
]);

/** The kind that a broker's number stands for. */
export function kindOf(number: unknown): FailureKind {
  return KINDS.get(number) ?? 'unknown';
}

/** CONCURRENT_TRANSACTIONS: the one before is committed, and its markers are still being written. */
export const CONCURRENT_TRANSACTIONS = 51;

/** A transaction that nobody ends holds up readers for this long; all that happens in one takes milliseconds. */
export const TRANSACTION_TIMEOUT_MS = 30_000;

const CLOSE_WITHIN_MS = 3_000;

/** Waits for a client to say goodbye, but not for one whose broker is gone. */
export async function closed(closing: Promise<unknown> | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>(resolve => {
    timer = setTimeout(resolve, CLOSE_WITHIN_MS);
  });
  await Promise.race([late, closing?.catch(() => undefined)]);
  clearTimeout(timer);
}

/** Tries again while `isConcurrent` says that the transaction before is still ending, for a few seconds. */
export async function afterTheLast<T>(begin: () => Promise<T>, isConcurrent: (error: unknown) => boolean): Promise<T> {
  const deadline = performance.now() + 5_000;
  for (let wait = 2; ; wait = Math.min(wait * 2, 50)) {
    try {
      return await begin();
    } catch (error) {
      if (!isConcurrent(error) || performance.now() > deadline) throw error;
    }
    await new Promise(resolve => setTimeout(resolve, wait));
  }
}

/** In groups of at most so many bytes of key, value and headers; one that has more is alone. Brokers bound a request's records. */
export function inChunks(records: readonly ProducedRecord[], maxBytes: number): readonly (readonly ProducedRecord[])[] {
  const chunks: ProducedRecord[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const record of records) {
    const size = sizeOf(record);
    if (bytes + size > maxBytes) {
      chunks.push([]);
      bytes = 0;
    }
    chunks.at(-1)!.push(record);
    bytes += size;
  }
  return chunks;
}

const OVERHEAD = 32;

export function sizeOf({ key, value, headers }: ProducedRecord): number {
  const ofHeaders = headers.reduce((sum, [name, header]) => sum + name.length + header.length + 4, 0);
  return OVERHEAD + (key?.length ?? 0) + (value?.length ?? 0) + ofHeaders;
}

/** Records of one topic in the shape of kafkajs, which confluent's client has too. */
export interface TopicRecords {
  topic: string;
  messages: {
    key: Buffer | null;
    value: Buffer | null;
    headers: Record<string, Buffer | Buffer[]>;
    partition?: number;
  }[];
}

/** `unassigned` is what stands for "the partitioner decides": kafkajs wants none, confluent a null. */
export function byTopic(records: readonly ProducedRecord[], unassigned: { readonly partition?: null }): TopicRecords[] {
  return [...Map.groupBy(records, ({ topic }) => topic)].map(([topic, ofTopic]) => ({
    topic,
    messages: ofTopic.map(record => ({
      key: record.key,
      value: record.value,
      headers: headerObject(record),
      ...((record.partition === undefined ? unassigned : { partition: record.partition }) as { partition?: number }),
    })),
  }));
}

/** Headers as a plain object, a repeated name with a list. */
function headerObject({ headers }: ProducedRecord): Record<string, Buffer | Buffer[]> {
  const object: Record<string, Buffer | Buffer[]> = Object.create(null);
  for (const [name, value] of headers) {
    const before = object[name];
    if (before === undefined) object[name] = value;
    else object[name] = Array.isArray(before) ? [...before, value] : [before, value];
  }
  return object;
}
