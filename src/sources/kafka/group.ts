import { NevertwiceError } from '../../errors.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Lane } from '../../ports/source.ts';
import { WaitList } from '../wait-list.ts';
import {
  type Fetched,
  laneIdOf,
  type Member,
  type MemberEvents,
  type OffsetToCommit,
  type PartitionState,
  type TopicPartition,
} from './client.ts';
import { KafkaLane, type LaneLimits, type LaneOwner } from './lane.ts';

const RETRY_COMMIT_MS = 1_000;
/** A client whose broker is gone tries for long to say goodbye; its session ends without that. */
const LEAVE_WITHIN_MS = 5_000;
/** A handler that takes longer holds up the whole group; its transaction is then somebody else's duplicate. */
const REVOKE_WITHIN_MS = 10_000;

interface Due extends OffsetToCommit {
  readonly lane: KafkaLane;
}

/**
 * One membership in a consumer group: which lanes are ours, what was committed for them. Every assignment makes new
 * lanes, so nothing that was begun under an old one can be committed under a new one.
 */
export class KafkaGroup implements MemberEvents, LaneOwner {
  readonly #limits: LaneLimits;
  readonly #clock: Clock;
  readonly #lanes = new Map<string, KafkaLane>();
  readonly #changed = new WaitList();
  readonly #left = new AbortController();
  #offered: KafkaLane[] = [];
  #member: Member | undefined;
  #failure: { readonly error: unknown } | undefined;
  #committing: Promise<void> | undefined;

  constructor(limits: LaneLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  joined(member: Member): void {
    this.#member = member;
    for (const lane of this.#lanes.values()) this.#askFor(lane);
  }

  assigned(partitions: readonly TopicPartition[]): void {
    // A client may rejoin without a word before it, while fetches that it asked for are under way: they continue what an
    // earlier lane had read, and not what it had settled. That lane says where the new one has to begin.
    const marks = new Map([...this.#lanes.values()].map(lane => [lane.id, lane.unsettledFrom]));
    this.lost();
    for (const at of partitions) {
      const lane = this.#open(at);
      const mark = marks.get(lane.id);
      if (mark !== undefined && !this.#limits.positioned) lane.beginAt(mark);
    }
  }

  #open(at: TopicPartition): KafkaLane {
    const lane = new KafkaLane(at, this, this.#limits);
    this.#lanes.set(lane.id, lane);
    this.#offered.push(lane);
    this.#askFor(lane);
    this.#changed.wakeAll();
    return lane;
  }

  // A pause of an earlier assignment may have outlived it.
  #askFor({ at, wanted }: KafkaLane): void {
    if (wanted) this.#member?.resume(at);
    else this.#member?.pause(at);
  }

  reopen(lane: KafkaLane): void {
    // A lane that is about to go must not come back as another one behind the rebalance's back.
    if (lane.leaving.aborted) return;
    lane.revoke();
    if (this.#lanes.get(lane.id) === lane) this.#open(lane.at);
  }

  async inspect(at: TopicPartition): Promise<PartitionState> {
    if (this.#member === undefined) throw new NevertwiceError('NT_SOURCE_DOWN', 'the group is not joined yet');
    return this.#member.inspect(at);
  }

  replaced(fetch: Fetched): void {
    this.#lanes.get(laneIdOf(fetch))?.revoke();
    this.#open({ topic: fetch.topic, partition: fetch.partition }).fetched(fetch);
  }

  added(partitions: readonly TopicPartition[]): void {
    for (const at of partitions) if (!this.#lanes.has(laneIdOf(at))) this.#open(at);
  }

  async revoked(partitions?: readonly TopicPartition[]): Promise<void> {
    const leaving = this.#lanesOf(partitions);
    const member = this.#member;
    await this.#within(REVOKE_WITHIN_MS, Promise.all(leaving.map(lane => lane.leave())));
    // In this order: after it, another owner may commit, and ours would put its offsets back.
    const due = this.#due().filter(({ lane }) => leaving.includes(lane));
    if (member !== undefined && due.length > 0) await this.#within(REVOKE_WITHIN_MS, this.#commit(member, due));
    this.#drop(leaving);
  }

  lost(partitions?: readonly TopicPartition[]): void {
    this.#drop(this.#lanesOf(partitions));
  }

  #lanesOf(partitions: readonly TopicPartition[] | undefined): readonly KafkaLane[] {
    if (partitions === undefined) return [...this.#lanes.values()];
    return partitions.flatMap(at => this.#lanes.get(laneIdOf(at)) ?? []);
  }

  #drop(lanes: readonly KafkaLane[]): void {
    for (const lane of lanes) {
      lane.revoke();
      // A later assignment may have put another in its place meanwhile.
      if (this.#lanes.get(lane.id) === lane) this.#lanes.delete(lane.id);
    }
    this.#offered = this.#offered.filter(lane => !lane.revoked.aborted);
  }

  fetched(fetch: Fetched): void {
    this.#lanes.get(laneIdOf(fetch))?.fetched(fetch);
    // What may not be read has nobody to settle it.
    if (fetch.records.length === 0) this.settled();
  }

  failed(error: unknown): void {
    this.#failure ??= { error };
    this.#changed.wakeAll();
  }

  /** The next lane that is ours and that nobody was told of; undefined once `signal` aborts. Rejects when the member failed. */
  async nextLane(signal: AbortSignal): Promise<Lane | undefined> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure.error;
      if (signal.aborted) return undefined;
      const lane = this.#offered.shift();
      if (lane !== undefined) return lane.take();
      await this.#changed.wait(signal);
    }
  }

  get lag(): number | undefined {
    let sum = 0;
    for (const { lag } of this.#lanes.values()) {
      if (lag === undefined) return undefined;
      sum += lag;
    }
    return sum;
  }

  pause(at: TopicPartition): void {
    this.#member?.pause(at);
  }

  resume(at: TopicPartition): void {
    this.#member?.resume(at);
  }

  seek(at: TopicPartition, offset: bigint): void {
    this.#member?.seek(at, offset);
  }

  settled(): void {
    this.#committing ??= this.#commitAll();
  }

  /** Commits until nothing is left: one request at a time, for all lanes together, with whatever has been settled by then. */
  async #commitAll(): Promise<void> {
    while (!this.#left.signal.aborted) {
      // Lets every lane that settles in this moment come along.
      await null;
      const due = this.#due();
      if (due.length === 0 || this.#member === undefined) break;
      if (!(await this.#commit(this.#member, due))) await this.#clock.sleep(RETRY_COMMIT_MS, this.#left.signal);
    }
    // In the same turn as the look that found nothing: whoever settles after it begins anew, and nobody is forgotten.
    this.#committing = undefined;
  }

  #due(): Due[] {
    return [...this.#lanes.values()].flatMap(lane => {
      const offset = lane.uncommitted;
      return offset === undefined ? [] : [{ ...lane.at, lane, offset, metadata: lane.metadata }];
    });
  }

  async #commit(member: Member, due: readonly Due[]): Promise<boolean> {
    try {
      await member.commit(
        due.map(({ topic, partition, offset, metadata }) => ({ topic, partition, offset, metadata })),
      );
    } catch {
      // A rebalance, or the broker is away. What is not committed is delivered again, and is a duplicate then.
      return false;
    }
    for (const { lane, offset } of due) lane.committed(offset);
    return true;
  }

  /** Commits what is settled and leaves the group. */
  async leave(): Promise<void> {
    this.#left.abort();
    if (this.#committing !== undefined) await this.#within(LEAVE_WITHIN_MS, this.#committing);
    const member = this.#member;
    this.#member = undefined;
    if (member === undefined) return;
    const due = this.#due();
    if (due.length > 0) await this.#within(LEAVE_WITHIN_MS, this.#commit(member, due));
    this.lost();
    await this.#within(LEAVE_WITHIN_MS, member.leave());
  }

  /** Resolves with the promise, whatever becomes of it, or when the time is over. */
  async #within(ms: number, promise: Promise<unknown>): Promise<void> {
    const ended = new AbortController();
    const over = () => ended.abort();
    promise.then(over, over);
    await this.#clock.sleep(ms, ended.signal);
  }
}
