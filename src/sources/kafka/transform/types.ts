import type { Decode } from '../../../handlers.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Message } from '../../../ports/delivery.ts';
import type { Points } from '../../../ports/points.ts';
import type { KafkaClient } from '../client.ts';

/** A record as `transform` gets it. It needs no id: what tells it from every other is where it stands. */
export interface TransformMessage<Body = unknown> extends Omit<Message<Body>, 'id' | 'position'> {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  /** `topic/partition/offset`, as in dead letters. */
  readonly position: string;
}

/** A record to write. Texts are written as UTF-8. */
export interface OutputRecord {
  readonly topic: string;
  /** Default null: the client's partitioner then chooses any partition. */
  readonly key?: string | Uint8Array | null;
  /** Null for a tombstone. */
  readonly value: string | Uint8Array | null;
  /** A name with a list is written once for each value. */
  readonly headers?: Readonly<Record<string, string | Uint8Array | readonly (string | Uint8Array)[]>>;
  /** Default: by the client's partitioner, from the key. */
  readonly partition?: number;
}

/** What becomes of a message: one record, several in this order, or none. */
export type Outputs = OutputRecord | readonly OutputRecord[] | null | undefined;

export interface TransformContext {
  /** Aborts when the partition is taken away, or when a stop reaches its deadline. Pass it on. */
  readonly signal: AbortSignal;
}

type Returned = Outputs | Promise<Outputs>;

export type KafkaTransformOptions<Body = unknown> = {
  /** The user's own client, wrapped by its name: `kafkajs(kafka)`. */
  readonly client: KafkaClient;
  readonly topics: readonly string[];
  /** The group whose offsets are committed with the outputs. */
  readonly groupId: string;
  /**
   * The beginning of the transactional ids: `<this>/<topic>/<partition>`. Default: the group. Must stay the same over
   * restarts, hosts and deployments, and be no other application's: it is what fences a process that was taken for dead.
   */
  readonly transactionalId?: string;
  /**
   * Where a record goes that cannot be transformed (rejected, out of attempts, undecodable), with its key, value and headers and
   * why, in the same transaction as its offset. Default none: `run` then rejects, and nothing is skipped.
   */
  readonly deadLetterTopic?: string;
  /** Most records in one transaction. Default 500, 1 to 10,000. */
  readonly maxBatch?: number;
  /**
   * Tries of a failing transform for one record: `attempts` (default 5), with a back-off from `minMs` (default 100) to `maxMs`
   * (default 10,000) and jitter. What throws `Unavailable` is tried again without end.
   */
  readonly retries?: { readonly attempts?: number; readonly minMs?: number; readonly maxMs?: number };
  /** Where a partition begins that the group has never committed anything for. Default `earliest`: `latest` skips what is there. */
  readonly from?: 'earliest' | 'latest';
  /** Bytes of the value to a body. Default JSON. A tombstone has the body null and is not decoded. */
  readonly decode?: Decode;
  /** Records of one partition that may wait in this process before it is paused. Default 2,000. */
  readonly maxBuffered?: number;
  /** The header that becomes a message's `type`. Default `type`. */
  readonly typeHeader?: string;
  /** Time and randomness, for tests. */
  readonly clock?: Clock;
} & (
  | {
      /** Sees the records one by one, in order. */
      readonly transform: (message: TransformMessage<Body>, context: TransformContext) => Returned;
      readonly transformBatch?: never;
    }
  | {
      /** Sees up to `maxBatch` records of one partition at once. Where one batch ends and the next begins is nobody's promise. */
      readonly transformBatch: (messages: readonly TransformMessage<Body>[], context: TransformContext) => Returned;
      readonly transform?: never;
    }
);

/** Counts since the start. A record that is read again after a failure counts once, when its transaction is committed. */
export interface TransformSummary {
  /** Records whose outputs are committed. */
  processed: number;
  /** Outputs that are committed, without dead letters. */
  produced: number;
  deadLetters: number;
  /** Calls that ended in an error, and transactions that the broker would not take. */
  failed: number;
  /** Transactions refused because the partition has, or had, another owner. Nothing of them can be read. */
  fenced: number;
}

export interface TransformRunOptions {
  /** Stops like `stop()` with no deadline. */
  readonly signal?: AbortSignal;
  /**
   * Named points to wait on or crash at; for tests. `claim`: the partition is taken over; `handle`: outputs are made; `record`:
   * before, they are written and not committed, after, they are committed.
   */
  readonly points?: Points;
}

export interface KafkaTransform {
  /** The group. */
  readonly name: string;
  /** What happened since the start; live while it runs. */
  readonly summary: Readonly<TransformSummary>;
  /**
   * Reads and writes until stopped. Resolves with the counts once all is quiet. Rejects with NT_SOURCE_DOWN when the brokers
   * cannot be reached at the start (later it waits and goes on), with NT_CONFIG when the broker refuses something, a topic
   * does not exist or another application uses the transactional ids, and, without a `deadLetterTopic`, with NT_REJECTED or
   * NT_BAD_MESSAGE at a record that cannot be transformed.
   */
  run(options?: TransformRunOptions): Promise<TransformSummary>;
  /**
   * No batch is begun any more; those in work may finish for `withinMs` (default: as long as they take); then they are cut off
   * and aborted. Resolves once all is quiet, with the positions that were abandoned: they are read again.
   */
  stop(options?: { readonly withinMs?: number }): Promise<{ readonly abandoned: readonly string[] }>;
}
