import { strictUtf8 } from '../../core/bytes.ts';
import { headersFrom } from '../../core/headers.ts';
import type { WindowEntry } from '../../core/offset-window.ts';
import type { Delivery, Headers } from '../../ports/delivery.ts';
import type { KafkaRecord, TopicPartition } from './client.ts';

/** What all deliveries of a lane share. */
export interface LaneFacts {
  readonly id: string;
  readonly at: TopicPartition;
  readonly typeHeader: string;
}

/**
 * A record as its lane hands it out, and its place in the lane. Thousands of them wait in the memory of a reader, and what the
 * garbage collector finds alive there costs more than all else that is done with a record: so it is one object beside the
 * client's own, and the rest is made when it is asked for.
 */
export class KafkaDelivery implements Delivery, WindowEntry {
  readonly #record: KafkaRecord;
  readonly #lane: LaneFacts;
  #headers: Headers | undefined;
  settled = false;

  constructor(record: KafkaRecord, lane: LaneFacts) {
    this.#record = record;
    this.#lane = lane;
  }

  get lane(): string {
    return this.#lane.id;
  }

  get position(): string {
    return `${this.#lane.id}/${this.#record.offset}`;
  }

  /** Kafka does not count how often it hands a record over. */
  get attempt(): number {
    return 1;
  }

  get headers(): Headers {
    this.#headers ??= headersFrom(this.#record.headers);
    return this.#headers;
  }

  get key(): string | undefined {
    const { key } = this.#record;
    return key === null ? undefined : (strictUtf8(key) ?? `base64:${Buffer.from(key).toString('base64')}`);
  }

  get type(): string | undefined {
    return this.headers.get(this.#lane.typeHeader);
  }

  get time(): Date | undefined {
    const { timestampMs } = this.#record;
    return timestampMs === undefined ? undefined : new Date(timestampMs);
  }

  get value(): Uint8Array | undefined {
    return this.#record.value ?? undefined;
  }

  /** A tombstone is a message that says "gone", and not one whose body was lost. */
  get body(): { readonly value: null } | undefined {
    return this.#record.value === null ? TOMBSTONE : undefined;
  }

  get topic(): string {
    return this.#lane.at.topic;
  }

  get partition(): number {
    return this.#lane.at.partition;
  }

  get offset(): bigint {
    return this.#record.offset;
  }

  get leaderEpoch(): number | undefined {
    return this.#record.leaderEpoch;
  }

  get keyBytes(): Uint8Array | undefined {
    return this.#record.key ?? undefined;
  }
}

const TOMBSTONE = { value: null } as const;
