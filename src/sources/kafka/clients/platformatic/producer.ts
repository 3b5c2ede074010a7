import {
  abortFor,
  closed,
  inChunks,
  kindOf,
  type ProducedRecord,
  ProducerFailure,
  type ProducerOptions,
  TRANSACTION_TIMEOUT_MS,
  type Transaction,
  type TransactionalProducer,
} from '../../producer.ts';
import { numbersIn } from './errors.ts';
import type { PlatformaticMember } from './member.ts';
import type { MetadataLike, PlatformaticLike } from './wire.ts';

/** What we call on a producer of theirs. */
export interface PlatformaticProducerLike {
  readonly producerId: bigint | undefined;
  readonly producerEpoch: number | undefined;
  beginTransaction(options?: any): Promise<PlatformaticTransactionLike>;
  send(options: any): Promise<unknown>;
  metadata(options: { topics: string[] }): Promise<MetadataLike>;
  close(force: boolean): Promise<void>;
}

export interface PlatformaticTransactionLike {
  addConsumer(consumer: any): Promise<void>;
  send(options: any): Promise<unknown>;
  commit(): Promise<void>;
  abort(): Promise<void>;
}

/** Brokers take a megabyte a batch at most unless told otherwise. */
export const MAX_BYTES = 500_000;
export const ALL_REPLICAS = -1;
const RETRIES = 10;

export function settings(own: Readonly<Record<string, unknown>>, transactionalId: string | undefined): object {
  // What is to become of bytes is decided here already.
  const { registry, serializers, beforeSerialization, ...connection } = own;
  return {
    ...connection,
    ...(transactionalId === undefined ? {} : { transactionalId }),
    idempotent: true,
    acks: ALL_REPLICAS,
    // Theirs is for requests and transactions alike.
    timeout: TRANSACTION_TIMEOUT_MS,
    // The broker refuses the next transaction for some milliseconds, while it still writes the markers of the last one.
    retries: RETRIES,
    retryDelay: (_client: unknown, _operation: string, attempt: number) => Math.min(5 * 2 ** attempt, 1_000),
  };
}

export class PlatformaticTransactions implements TransactionalProducer {
  readonly #make: () => PlatformaticProducerLike;
  readonly #options: ProducerOptions;
  readonly #member: PlatformaticMember;
  #producer: PlatformaticProducerLike;
  #next: PlatformaticTransactionLike | undefined;

  constructor(
    kafka: PlatformaticLike,
    own: Readonly<Record<string, unknown>>,
    options: ProducerOptions,
    member: PlatformaticMember,
  ) {
    this.#make = () => new kafka.Producer(settings(own, options.transactionalId));
    this.#producer = this.#make();
    this.#options = options;
    this.#member = member;
  }

  async open(): Promise<this> {
    try {
      // It asks for its id, and so fences whoever had it, when its first transaction begins. By itself it says that it was the
      // producer with the number 0, whom the broker takes for one that was fenced.
      this.#next = await this.#producer.beginTransaction({ producerId: -1n, producerEpoch: -1 });
    } catch (error) {
      await this.close();
      throw failureOf(error);
    }
    return this;
  }

  async transact({ outputs, offset, produced }: Transaction): Promise<void> {
    const { groupId, transactionalId } = this.#options;
    const transaction = this.#next ?? (await this.#producer.beginTransaction().catch(rethrow));
    this.#next = undefined;
    try {
      await transaction.addConsumer({ groupId });
      await this.#assertPartitions(outputs);
      for (const chunk of inChunks(outputs, MAX_BYTES)) await transaction.send({ messages: chunk.map(messageOf) });
    } catch (error) {
      const failure = failureOf(error);
      await abortFor(failure, transaction, failureOf).catch(async aborted => {
        if (aborted === failure && failure.kind === 'unwritable') await this.#replace();
        throw aborted;
      });
    }
    await produced().catch(error => abortFor(error, transaction, failureOf));
    try {
      const { producerId, producerEpoch } = this.#producer;
      // Not their `addOffset`: it takes who we are in the group from a message, and so as it was when that was fetched.
      await this.#member.commitIn({ transactionalId, producerId, producerEpoch }, [offset]);
    } catch (error) {
      return abortFor(failureOf(error), transaction, failureOf);
    }
    await transaction.commit().catch(rethrow);
  }

  /** It has numbered the records that were not taken, and the broker would miss these numbers. */
  async #replace(): Promise<void> {
    await this.close();
    this.#producer = this.#make();
    await this.open();
  }

  /** It writes a record for a partition that does not exist to another one. */
  async #assertPartitions(outputs: readonly ProducedRecord[]): Promise<void> {
    const chosen = outputs.filter(({ partition }) => partition !== undefined);
    if (chosen.length === 0) return;
    const { topics } = await this.#producer.metadata({ topics: [...new Set(chosen.map(({ topic }) => topic))] });
    for (const { topic, partition } of chosen) {
      if (partition! < (topics.get(topic)?.partitionsCount ?? 0)) continue;
      throw new ProducerFailure('unwritable', new Error(`the topic ${topic} has no partition ${partition}`));
    }
  }

  close(): Promise<void> {
    return closed(this.#producer.close(true));
  }
}

export function messageOf({ topic, partition, key, value, headers }: ProducedRecord): object {
  return {
    topic,
    ...(partition === undefined ? {} : { partition }),
    ...(key === null ? {} : { key }),
    value,
    // By buffers, of which each is a key of its own, so that a name can be repeated.
    headers: new Map(headers.map(([name, header]) => [Buffer.from(name), header])),
  };
}

export function failureOf(error: unknown): ProducerFailure {
  if (error instanceof ProducerFailure) return error;
  // What it has tried several times may have failed in several ways; the last one counts.
  const kinds = numbersIn(error).map(kindOf);
  return new ProducerFailure(kinds.findLast(kind => kind !== 'unknown') ?? 'unknown', error);
}

function rethrow(error: unknown): never {
  throw failureOf(error);
}
