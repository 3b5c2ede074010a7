import { OffsetWindow } from '../../core/offset-window.ts';
import { NevertwiceError } from '../../errors.ts';
import type { Delivery } from '../../ports/delivery.ts';
import type { LaneLog } from '../../ports/log.ts';
import type { Lane, Settlement } from '../../ports/source.ts';
import { WaitList } from '../wait-list.ts';
import { type Fetched, laneIdOf, type PartitionState, type TopicPartition } from './client.ts';
import { logStateOf, metadataOf } from './log-state.ts';
import { KafkaDelivery, type LaneFacts } from './record.ts';

/** What a lane asks of the member that owns it. */
export interface LaneOwner {
  pause(partition: TopicPartition): void;
  resume(partition: TopicPartition): void;
  seek(partition: TopicPartition, offset: bigint): void;
  inspect(partition: TopicPartition): Promise<PartitionState>;
  /** There is more to commit than before. */
  settled(): void;
  /** The lane begins anew as another one of the same partition. */
  reopen(lane: KafkaLane): void;
  /** The log is not the one that the lane has read from, or has lost what was next: the fetch belongs to a new lane. */
  replaced(fetch: Fetched): void;
  failed(error: unknown): void;
}

export interface LaneLimits {
  /** A partition is not fetched any further while this many records of it wait. */
  readonly maxBuffered: number;
  readonly typeHeader: string;
  /** The logical name of the consumer, whose own offsets are known by it. */
  readonly consumer: string;
  /** The consumer says where each lane begins; until then nothing is read. */
  readonly positioned: boolean;
  /** False when a client whose offset is out of range goes on at the end of the log, and so past what is still there. */
  readonly fromEarliest: boolean;
  /** True when offsets are committed with what was produced, in transactions: the member commits nothing. */
  readonly transactional?: boolean;
}

/**
 * After so many fetches that begin further on than asked, what lies between is believed to be gone. One or two may have been
 * under way when the client was sent back, each from another broker.
 */
const BELIEVED = 3;

/** A partition from its assignment until it is taken away. */
export class KafkaLane implements Lane {
  readonly id: string;
  readonly at: TopicPartition;
  readonly log: LaneLog | undefined;
  readonly #owner: LaneOwner;
  readonly #limits: LaneLimits;
  readonly #facts: LaneFacts;
  readonly #revocation = new AbortController();
  readonly #departure = new AbortController();
  readonly #quiet = Promise.withResolvers<void>();
  readonly #window = new OffsetWindow<KafkaDelivery>();
  readonly #arrived = new WaitList();
  #taken = false;
  /** True until the consumer has said where to begin. */
  #held: boolean;
  #recorded: bigint | undefined;
  /** Set while the group's offset is somebody else's and has to become ours. */
  #claim: PromiseWithResolvers<void> | undefined;
  #paused = false;
  #end: bigint | undefined;
  #committed: bigint | undefined;
  /** Where the client was sent back to, until it gave something from there. */
  #sought: bigint | undefined;
  /** Fetches since then that began further on. */
  #refused = 0;
  /** How far the client has passed over records that nobody may read, since it was sent back. */
  #passed: bigint | undefined;

  constructor(at: TopicPartition, owner: LaneOwner, limits: LaneLimits) {
    this.at = at;
    this.id = laneIdOf(at);
    this.#owner = owner;
    this.#limits = limits;
    this.#facts = { id: this.id, at, typeHeader: limits.typeHeader };
    this.#held = limits.positioned;
    if (limits.positioned) this.log = this.#logOf();
  }

  /** True while the partition should be fetched. */
  get wanted(): boolean {
    return !this.#held && !this.#paused;
  }

  #logOf(): LaneLog {
    return {
      inspect: async () => {
        const state = await this.#owner.inspect(this.at);
        // Going on before it, as after markers or with a database that lost commits, does not take it back.
        if (state.committed !== undefined && state.committed.offset <= state.end)
          this.#committed = state.committed.offset;
        return logStateOf(state, this.at, this.#limits);
      },
      beginAt: offset => {
        this.#held = false;
        this.beginAt(offset);
        this.#owner.resume(this.at);
      },
      recorded: position => {
        this.#recorded = position;
      },
      claim: () => {
        this.#claim ??= Promise.withResolvers();
        if (this.leaving.aborted) this.#claim.resolve();
        this.#owner.settled();
        return this.#claim.promise;
      },
      reopen: () => this.#owner.reopen(this),
    };
  }

  get revoked(): AbortSignal {
    return this.#revocation.signal;
  }

  get leaving(): AbortSignal {
    return this.#departure.signal;
  }

  /** Records that can be read and are not settled; undefined while nothing is known. */
  get lag(): number | undefined {
    const done = this.#window.committable;
    return this.#end === undefined || done === undefined ? undefined : Number(this.#end - done);
  }

  /** Records of one fetch. What was handed out before is left out, and a fetch that skips something is not taken. */
  fetched(fetch: Fetched): void {
    if (this.leaving.aborted || this.#held) return;
    const { from, records, next, end } = fetch;
    if (from === undefined) {
      this.#passedOver(next);
      return;
    }
    const expected = this.#window.next;
    if (expected !== undefined && end !== undefined && end < expected) {
      // A topic that was deleted and made again, or a log that lost its end: offsets below are new messages, and taking
      // them for copies of what was read would lose them.
      this.#replacedBy(fetch);
      return;
    }
    if (expected !== undefined && from > expected && from !== this.#passed) {
      this.#missing(expected, fetch);
      return;
    }
    this.#sought = undefined;
    this.#passed = undefined;
    for (const record of records) {
      if (!this.#window.has(record.offset)) this.#window.add(new KafkaDelivery(record, this.#facts));
    }
    this.#window.skipTo(next);
    this.#end = end ?? this.#end;
    if (this.#window.waiting >= this.#limits.maxBuffered) {
      this.#paused = true;
      this.#owner.pause(this.at);
    }
    this.#arrived.wakeAll();
  }

  /** A lane that takes over from an earlier one of this process begins where that one has not settled. */
  beginAt(offset: bigint): void {
    this.#window.skipTo(offset);
    this.#sendBackTo(offset);
  }

  /** The lowest offset that is not settled; undefined while nothing was read. */
  get unsettledFrom(): bigint | undefined {
    return this.#window.committable;
  }

  #passedOver(next: bigint): void {
    // Of a fetch from before the client was sent back it says nothing about what comes after.
    if (this.#sought === undefined) this.#window.skipTo(next);
    else this.#passed = next;
  }

  /** Records are missing in front of these: taking these would let a commit pass over them. */
  #missing(expected: bigint, fetch: Fetched): void {
    if (this.#sought !== expected || ++this.#refused < BELIEVED) {
      this.#sendBackTo(expected);
    } else if (this.#limits.positioned || this.#limits.fromEarliest) {
      // Asked for again and again, and not there: retention has deleted it, and these are the first that are left.
      this.#replacedBy(fetch);
    } else {
      this.#owner.failed(
        new NevertwiceError(
          'NT_SOURCE_DOWN',
          `${this.id}: offset ${expected} is no longer in the log, and with from: 'latest' the client would skip what is; set the group's offset, or use from: 'earliest'`,
        ),
      );
    }
  }

  #replacedBy(fetch: Fetched): void {
    // Whoever keeps the position decides what it means.
    if (this.#limits.positioned) this.#owner.reopen(this);
    else this.#owner.replaced(fetch);
  }

  #sendBackTo(offset: bigint): void {
    if (this.#sought !== offset) this.#refused = 0;
    this.#sought = offset;
    this.#passed = undefined;
    this.#owner.seek(this.at, offset);
  }

  async receive(max: number, signal: AbortSignal): Promise<readonly Delivery[]> {
    const ended = AbortSignal.any([signal, this.leaving]);
    while (this.#window.waiting === 0 && !ended.aborted) await this.#arrived.wait(ended);
    if (ended.aborted) return [];
    const deliveries = this.#window.take(max);
    if (this.#paused && this.#window.waiting < this.#limits.maxBuffered / 2) {
      this.#paused = false;
      this.#owner.resume(this.at);
    }
    return deliveries;
  }

  async settle(settlements: readonly Settlement[]): Promise<void> {
    if (this.revoked.aborted) return;
    for (const { delivery, settle } of settlements) {
      if (settle === 'ack') this.#window.settle(delivery as KafkaDelivery);
    }
    this.#owner.settled();
  }

  /** What is still to be committed; undefined when there is nothing, or when the partition is no longer ours. */
  get uncommitted(): bigint | undefined {
    const settled = this.#window.committable;
    if (this.#limits.transactional || this.revoked.aborted || settled === undefined) return undefined;
    // The record before the position is read once more to be looked at; it is done all the same.
    const offset = this.#recorded !== undefined && settled < this.#recorded ? this.#recorded : settled;
    if (this.#claim !== undefined) return offset;
    return this.#committed === undefined || offset > this.#committed ? offset : undefined;
  }

  /** What is kept beside a committed offset: the consumer's own position at that time. */
  get metadata(): string | undefined {
    return this.#recorded === undefined ? undefined : metadataOf(this.#recorded, this.#limits.consumer);
  }

  committed(offset: bigint): void {
    this.#committed = offset;
    this.#claim?.resolve();
    this.#claim = undefined;
  }

  /** No more deliveries. Resolves when nothing of the lane is in work any more. */
  leave(): Promise<void> {
    this.#claim?.resolve();
    this.#departure.abort();
    return this.#taken ? this.#quiet.promise : Promise.resolve();
  }

  /** Handed to the consumer, which says when it has ended. */
  take(): this {
    this.#taken = true;
    return this;
  }

  ended(): void {
    this.#quiet.resolve();
  }

  revoke(): void {
    this.#claim?.resolve();
    this.#departure.abort();
    this.#revocation.abort();
  }
}
