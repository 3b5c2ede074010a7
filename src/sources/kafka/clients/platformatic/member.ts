import { backoffMs } from '../../../../core/backoff.ts';
import { systemClock } from '../../../../ports/clock.ts';
import {
  type JoinOptions,
  laneIdOf,
  type Member,
  type MemberEvents,
  type OffsetToCommit,
  type PartitionState,
  type TopicPartition,
} from '../../client.ts';
import { ProducerFailure } from '../../producer.ts';
import { bySubscription } from './assigner.ts';
import { isRefused, startError } from './errors.ts';
import { Fetcher } from './fetcher.ts';
import { type Generation, GroupOffsets, type TransactionId } from './offsets.ts';
import { type Assignment, type MetadataLike, type PlatformaticLike, partitionsOf, Wire } from './wire.ts';

const RETRY = { minMs: 500, maxMs: 30_000 };
const COOPERATIVE = 'cooperative-sticky';
/** Theirs. */
const SESSION_MS = 60_000;
const METADATA_MAX_AGE_MS = 5_000;

/**
 * Two consumers of theirs: one for the group, whose requests must not wait behind a fetch on the same connection, and one
 * that reads. Joining, heartbeats and rejoining are the client's; it asks before each join what to tell the others, and that
 * is where it is held back until what is in work has ended.
 */
export class PlatformaticMember implements Member {
  readonly #options: Readonly<Record<string, unknown>>;
  readonly #joining: JoinOptions;
  readonly #events: MemberEvents;
  readonly #group: Wire;
  readonly #offsets: GroupOffsets;
  readonly #fetcher: Fetcher;
  readonly #left = new AbortController();
  readonly #cooperative: boolean;
  readonly #owned = new Map<string, TopicPartition>();
  /** As which the partitions became ours. */
  #generation: (Generation & { readonly isLeader: boolean }) | undefined;
  /** The broker has called for a rebalance: we are still a member, and may commit until we join again. */
  #called = false;
  /** The partitions of each topic when the group last joined. */
  #joinedWith: ReadonlyMap<string, number> = new Map();
  #entering = false;

  constructor(
    kafka: PlatformaticLike,
    options: Readonly<Record<string, unknown>>,
    joining: JoinOptions,
    events: MemberEvents,
  ) {
    this.#options = options;
    this.#joining = joining;
    this.#events = events;
    const protocols = options.protocols as readonly { readonly name: string }[] | undefined;
    this.#cooperative = protocols?.every(({ name }) => name === COOPERATIVE) ?? false;
    const partitionAssigner = bySubscription(kafka, this.#cooperative);
    const both = { partitionAssigner, ...options, groupId: joining.groupId, autocommit: false };
    // Of the log, `inspect` wants all that is there; a reader begins in front of transactions that are still open.
    this.#group = new Wire(kafka, {
      ...both,
      isolationLevel: 0,
      protocolsMetadata: (asked: readonly GroupProtocol[], topics: readonly string[], metadata: MetadataLike) =>
        this.#beforeJoin(asked, topics, metadata),
    });
    this.#offsets = new GroupOffsets(this.#group, joining.groupId, options.groupInstanceId as string | undefined);
    const number = (name: string, byDefault: number) => Number(options[name] ?? byDefault);
    const isolationLevel = number('isolationLevel', 1);
    this.#fetcher = new Fetcher(
      new Wire(kafka, { ...both, isolationLevel }),
      {
        topics: joining.topics,
        from: joining.from,
        committed: async partitions => (await this.#offsets.committed(partitions)).map(found => found?.offset),
        // A partition that is resumed is noticed when the fetch of the others ends, or this wait where there is nothing.
        maxWaitMs: number('maxWaitTime', 100),
        minBytes: number('minBytes', 1),
        maxBytes: number('maxBytes', 10 * 1_048_576),
        maxBytesPerPartition: number('maxBytesPerPartition', 1_048_576),
        readCommitted: isolationLevel === 1,
        metadataMaxAgeMs: number('metadataMaxAge', METADATA_MAX_AGE_MS),
      },
      {
        fetched: fetch => this.#events.fetched(fetch),
        counted: partitions => this.#counted(partitions),
        recreated: topic => this.#recreated(topic),
        failed: error => this.#events.failed(startError(error)),
      },
    );
  }

  async start(): Promise<void> {
    await this.#fetcher.start();
    const { consumer } = this.#group;
    consumer.topics.trackAll(...this.#joining.topics);
    consumer.on('consumer:group:rebalance', () => {
      this.#called = true;
    });
    consumer.on('consumer:group:join', joined => this.#joined(joined));
    // It could not join again, and does not try any more.
    consumer.on('error', () => void this.#enter());
    void this.#enter();
  }

  /** Joins, for as long as it takes. */
  async #enter(): Promise<void> {
    if (this.#entering) return;
    this.#entering = true;
    for (let tries = 1; !this.#left.signal.aborted; tries++) {
      try {
        await this.#group.consumer.joinGroup({});
        break;
      } catch (error) {
        if (this.#left.signal.aborted) return;
        this.#lose([...this.#owned.values()]);
        if (isRefused(error)) return this.#events.failed(startError(error));
        await systemClock.sleep(backoffMs(tries, RETRY, Math.random()), this.#left.signal);
      }
    }
    this.#entering = false;
  }

  /** Resolves with what the others are told of us, once we may join: this is the last moment to commit as who we were. */
  async #beforeJoin(
    protocols: readonly GroupProtocol[],
    topics: readonly string[],
    metadata: MetadataLike,
  ): Promise<Buffer> {
    const called = this.#called;
    this.#called = false;
    const kept = new Set(this.#cooperative ? partitionsOf(this.#group.consumer.assignments).map(laneIdOf) : []);
    const going = [...this.#owned.values()].filter(at => !kept.has(laneIdOf(at)));
    if (called && this.#cooperative) this.#keepUp();
    if (called) await this.#release(going);
    else this.#lose(going);
    if (this.#left.signal.aborted) throw new Error('we are leaving');
    this.#joinedWith = new Map(topics.map(topic => [topic, metadata.topics.get(topic)?.partitionsCount ?? 0]));
    return this.#userData(protocols, kept.size > 0);
  }

  // In a cooperative rebalance we hear nothing of the round that takes something away, but its generation counts from then
  // on. What is ours stayed ours in it, so that a commit under it puts back nobody's offsets.
  #keepUp(): void {
    const { memberId, generationId } = this.#group.consumer;
    if (this.#generation?.memberId === memberId) this.#generation = { ...this.#generation, generationId };
  }

  #userData([protocol]: readonly GroupProtocol[], owns: boolean): Buffer {
    const own = protocol?.metadata;
    if (own !== undefined && own !== null) return Buffer.from(own as string);
    if (!this.#cooperative) return Buffer.alloc(0);
    // As the client writes it by itself where it is not asked: the generation in which what we claim was given to us.
    const generation = Buffer.alloc(4);
    generation.writeInt32BE(owns ? this.#group.consumer.generationId : -1);
    return generation;
  }

  async #release(going: readonly TopicPartition[]): Promise<void> {
    if (going.length === 0) return;
    this.#fetcher.remove(going);
    // No heartbeats are sent meanwhile, and who is silent for a session is out.
    const withinMs = (Number(this.#options.sessionTimeout ?? SESSION_MS) * 2) / 3;
    const released = new AbortController();
    const ended = () => released.abort();
    this.#events.revoked(going).then(ended, ended);
    await systemClock.sleep(withinMs, AbortSignal.any([released.signal, this.#left.signal]));
    this.#lose(going);
  }

  #lose(gone: readonly TopicPartition[]): void {
    if (gone.length === 0) return;
    this.#fetcher.remove(gone);
    for (const at of gone) this.#owned.delete(laneIdOf(at));
    if (this.#owned.size === 0) this.#generation = undefined;
    this.#events.lost(gone);
  }

  #joined({ assignments, ...generation }: Joined): void {
    if (this.#left.signal.aborted) return;
    const now = partitionsOf(assignments);
    const ours = new Set(now.map(laneIdOf));
    // Where two joins overlap, a heartbeat's and one of ours, the second was not held back for what the first has given.
    this.#lose([...this.#owned].flatMap(([id, at]) => (ours.has(id) ? [] : [at])));
    const fresh = now.filter(at => !this.#owned.has(laneIdOf(at)));
    const first = this.#owned.size === 0;
    this.#generation = generation;
    if (fresh.length === 0 && !first) return;
    for (const at of fresh) this.#owned.set(laneIdOf(at), at);
    // In this order: whoever hears of them may pause them at once.
    this.#fetcher.add(fresh);
    if (first) this.#events.assigned(now);
    else this.#events.added(fresh);
  }

  // The leader assigns what it knows of, and nothing tells it of partitions that are added.
  #counted(partitions: ReadonlyMap<string, number>): void {
    if (this.#generation?.isLeader !== true || this.#entering) return;
    const changed = [...partitions].some(([topic, count]) => this.#joinedWith.get(topic) !== count);
    if (!changed) return;
    this.#called = true;
    void this.#enter();
  }

  #recreated(topic: string): void {
    const again = [...this.#owned.values()].filter(at => at.topic === topic);
    if (again.length === 0) return;
    // New lanes: to those that are, the offsets of new records would be old ones.
    this.#events.lost(again);
    this.#fetcher.add(again, 'earliest');
    this.#events.added(again);
  }

  pause(partition: TopicPartition): void {
    this.#fetcher.pause(partition);
  }

  resume(partition: TopicPartition): void {
    this.#fetcher.resume(partition);
  }

  seek(partition: TopicPartition, offset: bigint): void {
    this.#fetcher.seek(partition, offset);
  }

  async commit(offsets: readonly OffsetToCommit[]): Promise<void> {
    if (this.#generation === undefined) throw new Error('no partition is ours at the moment');
    await this.#offsets.commit(this.#generation, offsets);
  }

  /** As part of a transaction of the producer, and as who we are in the group now. */
  async commitIn(transaction: TransactionId, offsets: readonly OffsetToCommit[]): Promise<void> {
    if (this.#generation === undefined)
      throw new ProducerFailure('outdated', new Error('no partition is ours any more'));
    await this.#offsets.commitIn(transaction, this.#generation, offsets);
  }

  inspect(partition: TopicPartition): Promise<PartitionState> {
    return this.#offsets.inspect(partition);
  }

  async leave(): Promise<void> {
    this.#left.abort();
    this.#owned.clear();
    this.#generation = undefined;
    await Promise.all([this.#fetcher.stop(), this.#group.consumer.close(true)]);
  }
}

interface GroupProtocol {
  readonly name: string;
  readonly metadata?: string | Uint8Array | null;
}

interface Joined extends Generation {
  readonly isLeader: boolean;
  readonly assignments: readonly Assignment[];
}
