import { utf8 } from '../../core/bytes.ts';
import { NevertwiceError } from '../../errors.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import type { Source } from '../../ports/source.ts';
import { WaitList } from '../wait-list.ts';
import { Group } from './group.ts';
import { contentOf, type MemoryContent, type MemoryMessage, type MemoryRecord } from './message.ts';
import { memberSource } from './source.ts';

export interface MemoryBrokerOptions {
  /** Number of partitions, and so of lanes. Default 4. */
  readonly partitions?: number;
  /** First part of lane ids and positions. Default `memory`. */
  readonly topic?: string;
  /** Decides when a delayed message is due. Default: the system's. */
  readonly clock?: Clock;
}

export interface MemorySourceOptions {
  /** Readers of one group share the partitions. Default: the consumer's name. A new group starts at the first message. */
  readonly group?: string;
  /** Whether single deliveries can be handed back. Without it a `retry-later` is ignored. Default true. */
  readonly retryLater?: boolean;
  /** Whether it ends once everything that was sent is settled in the group. Default false. */
  readonly finite?: boolean;
}

/** Where a message was appended. */
export type Sent = Pick<MemoryRecord, 'partition' | 'offset' | 'position'>;

export interface RedeliverOptions {
  /**
   * `redelivery` (default): the same offset once more, as after a lost ack. `resend`: a copy at a new offset of the
   * same partition, as from a producer that did not hear that its send had worked.
   */
  readonly as?: 'redelivery' | 'resend';
}

/**
 * A broker in this process, for tests and demos: nothing survives the process.
 *
 * Partitions keep order like Kafka; single deliveries are settled, retried later and lost like with a queue. Each kind
 * of duplicate that real brokers make can be asked for: `redeliver`, `loseAcks`, `rebalance`, `expire`.
 */
export class MemoryBroker {
  readonly #topic: string;
  readonly #clock: Clock;
  readonly #logs: readonly MemoryRecord[][];
  readonly #groups = new Map<string, Group>();
  readonly #settled = new WaitList();
  #turn = 0;
  #acksToLose = 0;

  /** @throws NevertwiceError NT_CONFIG for a number of partitions that is not a positive integer */
  constructor(options: MemoryBrokerOptions = {}) {
    const { partitions = 4, topic = 'memory', clock = systemClock } = options;
    if (!Number.isSafeInteger(partitions) || partitions < 1) {
      throw new NevertwiceError(
        'NT_CONFIG',
        `partitions is ${partitions}, but a broker needs at least 1; give a positive integer`,
      );
    }
    this.#topic = topic;
    this.#clock = clock;
    this.#logs = Array.from({ length: partitions }, () => []);
  }

  /**
   * Appends a message. Every group gets it.
   *
   * @throws NevertwiceError NT_CONFIG for a partition that does not exist or a body that cannot be copied
   */
  send(message: MemoryMessage): Sent {
    const content = contentOf(message);
    const partition = message.partition ?? this.#partitionFor(content.keyBytes);
    if (this.#logs[partition] === undefined) {
      throw new NevertwiceError('NT_CONFIG', `there is no partition ${partition}; give one below ${this.#logs.length}`);
    }
    return this.#append(partition, content);
  }

  /** A reader. Every `receive()` on it is a member of the group of its own. */
  source(options: MemorySourceOptions = {}): Source {
    const { retryLater = true, finite = false } = options;
    return memberSource({ retryLater, finite, readAhead: true }, consumer => this.#group(options.group ?? consumer));
  }

  /**
   * Makes duplicates of what was sent under an id, or of what the function picks. Returns of how many messages.
   * In a group that has not had a message yet a redelivery changes nothing.
   */
  redeliver(which: string | ((record: MemoryRecord) => boolean), options: RedeliverOptions = {}): number {
    const picks = typeof which === 'function' ? which : (record: MemoryRecord) => idText(record) === which;
    const picked = this.#logs.flat().filter(picks);
    for (const record of picked) {
      if (options.as === 'resend') this.#append(record.partition, record);
      else for (const group of this.#groups.values()) group.cursors[record.partition]!.redeliver(Number(record.offset));
    }
    this.#refresh();
    return picked.length;
  }

  /** The next `n` acks get lost on their way here, so these messages come again after `expire` or `rebalance`. */
  loseAcks(n: number): void {
    this.#acksToLose = n;
  }

  /** Revokes every lane of every group and assigns anew; with several members each partition gets another owner. */
  rebalance(): void {
    for (const group of this.#groups.values()) group.rebalance();
  }

  /**
   * Everything in flight counts as timed out and is handed out again, in the same lanes, while those who have it may
   * still be working. Their late settles are ignored.
   */
  expire(): void {
    for (const group of this.#groups.values()) for (const cursor of group.cursors) cursor.takeBack();
  }

  /** Messages that the group has not settled: waiting, in flight or delayed. All of them for an unknown group. */
  pending(group: string): number {
    return this.#groups.get(group)?.pending ?? this.#logs.flat().length;
  }

  /** By partition the lowest offset that the group has not settled: the next to read, if nothing else were known. */
  committed(group: string): readonly bigint[] {
    const cursors = this.#groups.get(group)?.cursors;
    return this.#logs.map((_, partition) => BigInt(cursors?.[partition]?.committed ?? 0));
  }

  /** Resolves once everything sent is settled in the group; without a name in every group, and in one at least. */
  async drained(group?: string): Promise<void> {
    while (!this.#isDrained(group)) await this.#settled.wait();
  }

  #isDrained(name: string | undefined): boolean {
    if (this.#logs.every(log => log.length === 0)) return true;
    if (name !== undefined) return this.pending(name) === 0;
    return this.#groups.size > 0 && [...this.#groups.values()].every(group => group.pending === 0);
  }

  #append(partition: number, content: MemoryContent): Sent {
    const log = this.#logs[partition]!;
    const position = `${this.#topic}/${partition}/${log.length}`;
    const record = { ...content, partition, offset: BigInt(log.length), position };
    log.push(record);
    this.#refresh();
    return { partition, offset: record.offset, position };
  }

  #refresh(): void {
    for (const group of this.#groups.values()) group.refresh();
  }

  #group(name: string): Group {
    const known = this.#groups.get(name);
    if (known !== undefined) return known;
    const group = new Group({
      topic: this.#topic,
      logs: this.#logs,
      clock: this.#clock,
      loseAck: () => this.#acksToLose > 0 && this.#acksToLose-- > 0,
      onSettle: () => this.#settled.wakeAll(),
    });
    this.#groups.set(name, group);
    return group;
  }

  #partitionFor(key: Uint8Array | undefined): number {
    return (key === undefined ? this.#turn++ : fnv1a(key)) % this.#logs.length;
  }
}

function idText(record: MemoryRecord): string | undefined {
  return typeof record.id === 'object' ? utf8(record.id) : record.id;
}

function fnv1a(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
