import type {
  JoinOptions,
  Member,
  MemberEvents,
  OffsetToCommit,
  PartitionState,
  TopicPartition,
} from '../../client.ts';
import { laneIdOf } from '../../client.ts';
import { Brokers } from './brokers.ts';
import {
  type ConfluentConsumerLike,
  type ConfluentLike,
  called,
  type InnerConsumer,
  type InnerMessage,
  type InnerOffset,
  innerOf,
  noInner,
  onNonEmpty,
  type RebalanceAnswer,
} from './client.ts';
import { isFinal, settingsError, startError } from './errors.ts';
import { type PartitionEnd, Positions } from './positions.ts';
import { Turns } from './turns.ts';

const START_WITHIN_MS = 10_000;
const LISTEN_EVERY_MS = 100;
const SEEK_WITHIN_MS = 5_000;
const ASK_AGAIN_MS = 500;
/** Most of what one fetch brings of a partition, in one call; pausing it throws away what the client still holds of it. */
const MAX_MESSAGES = 10_000;
/**
 * Between two looks when there was nothing and the client says nothing. Each costs half a millisecond; waiting inside the
 * client would take one of Node's four worker threads away.
 */
const IDLE_MS = 50;

/** librdkafka's marks for an offset that it is to find out itself. */
const BEGINNING = -2;
const END = -1;
const ASSIGN = -175;

const DEFAULTS = {
  'isolation.level': 'read_committed',
  'allow.auto.create.topics': false,
  // Records wait in the lane: what the client holds besides is thrown away when the lane is full. Its defaults are 100,000
  // records, and a second's rest whenever it has as many as it wants.
  'queued.min.messages': 1_000,
  'fetch.queue.backoff.ms': 10,
  // A partition that is resumed is noticed when the fetch of the others ends.
  'fetch.wait.max.ms': 100,
} as const;

export class ConfluentMember implements Member {
  readonly #joining: JoinOptions;
  readonly #events: MemberEvents;
  readonly #consumer: ConfluentConsumerLike;
  readonly #positions = new Positions();
  readonly #turns = new Turns();
  readonly #paused = new Set<string>();
  readonly #refused = Promise.withResolvers<never>();
  #inner!: InnerConsumer;
  #ends: PartitionEnd[] = [];
  #brokers!: Brokers;
  #reading: Promise<void> | undefined;
  #rebalances: Promise<void> = Promise.resolve();
  #left = false;

  constructor(
    kafka: ConfluentLike,
    settings: Readonly<Record<string, unknown>>,
    joining: JoinOptions,
    events: MemberEvents,
  ) {
    this.#joining = joining;
    this.#events = events;
    this.#refused.promise.catch(() => undefined);
    try {
      this.#consumer = kafka.consumer({
        ...DEFAULTS,
        ...settings,
        'group.id': joining.groupId,
        'enable.auto.commit': false,
        'enable.partition.eof': true,
        // Where a partition begins we tell it; this is for an offset that the log no longer has, and then `latest` would
        // skip what is left.
        'auto.offset.reset': 'earliest',
        rebalance_cb: (change: { code: number }, partitions: readonly TopicPartition[], answer: RebalanceAnswer) => {
          const answered = this.#rebalances.then(() => this.#rebalanced(change.code, partitions, answer));
          this.#rebalances = answered.catch(() => undefined);
          return answered;
        },
      });
    } catch (error) {
      throw settingsError(error);
    }
  }

  async start(): Promise<void> {
    const { topics } = this.#joining;
    const connected = this.#consumer.connect();
    connected.catch(() => undefined);
    const inner = innerOf(this.#consumer);
    if (inner === undefined) throw await connected.then(noInner, error => settingsError(error));
    this.#inner = inner;
    this.#brokers = new Brokers(this.#consumer, inner);
    onNonEmpty(inner, () => this.#turns.wake());
    inner.on('event.error', error => this.#complained(error));
    inner.on('partition.eof', (end: PartitionEnd) => void this.#ends.push(end));
    try {
      await this.#connected(connected);
      await this.#brokers.describe(topics);
      inner.subscribe([...topics]);
    } catch (error) {
      // Before it has connected, the client does not let itself be ended.
      connected.then(() => this.leave()).catch(() => undefined);
      throw startError(error, topics);
    }
    this.#reading = this.#turns.run(
      () => this.#read(),
      () => this.#left,
      IDLE_MS,
    );
  }

  /** Asks for messages meanwhile, of which there are none: only who asks hears that it is refused. */
  async #connected(connected: Promise<void>): Promise<void> {
    let over = false;
    this.#inner.setDefaultConsumeTimeout(0);
    const listening = this.#turns.run(
      () =>
        called<readonly InnerMessage[]>(done => this.#inner.consume(1, done)).then(
          () => false,
          () => false,
        ),
      () => over,
      LISTEN_EVERY_MS,
    );
    try {
      await this.#within(START_WITHIN_MS, connected);
    } finally {
      over = true;
      this.#turns.wake();
      await listening;
    }
  }

  /** Rejects also when the client is refused meanwhile, which it would take for a reason to try again. */
  async #within<T>(ms: number, promise: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`the brokers did not answer within ${ms} ms`)), ms);
    });
    try {
      return await Promise.race([promise, this.#refused.promise, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  #complained(error: unknown): void {
    // Of all others librdkafka tells in passing, and tries again.
    if (!isFinal(error) || this.#left) return;
    this.#refused.reject(error);
    this.#events.failed(startError(error, this.#joining.topics));
  }

  /** Hands over what is there; true for anything. */
  async #read(): Promise<boolean> {
    const messages = await called<readonly InnerMessage[]>(done => this.#inner.consume(MAX_MESSAGES, done)).catch(
      error => {
        this.#complained(error);
        return undefined;
      },
    );
    const ends = this.#ends;
    this.#ends = [];
    if (this.#left) return false;
    try {
      const given = messages ?? [];
      for (const fetch of this.#positions.fetchesOf(given, ends, at => this.#endOf(at))) this.#events.fetched(fetch);
      return given.length > 0;
    } catch (error) {
      this.#events.failed(error);
      return false;
    }
  }

  #endOf({ topic, partition }: TopicPartition): bigint | undefined {
    try {
      const { highOffset } = this.#inner.getWatermarkOffsets(topic, partition);
      return highOffset >= 0 ? BigInt(highOffset) : undefined;
    } catch {
      return undefined;
    }
  }

  /** The client goes on with the rebalance when it is answered, and waits for that. */
  async #rebalanced(code: number, partitions: readonly TopicPartition[], answer: RebalanceAnswer): Promise<void> {
    const eager = this.#inner.rebalanceProtocol() !== 'COOPERATIVE';
    if (code === ASSIGN) {
      const starts = await this.#startsOf(partitions);
      await this.#turns.between(() => {
        answer.assign(starts);
        for (const at of starts) this.#positions.add(at, at.offset >= 0 ? BigInt(at.offset) : undefined);
        if (eager) this.#events.assigned(partitions);
        else this.#events.added(partitions);
      });
      return;
    }
    if (this.#inner.assignmentLost()) this.#events.lost(partitions);
    else await this.#events.revoked(partitions);
    await this.#turns.between(() => {
      for (const at of partitions) this.#positions.delete(at);
      // Not by the answer: that would be carried out by the loop that we do without.
      if (eager) this.#inner.unassign();
      else this.#inner.incrementalUnassign(partitions);
    });
  }

  /** The committed offsets, or else the end that was asked for, so that it is known where reading begins. */
  async #startsOf(partitions: readonly TopicPartition[]): Promise<readonly InnerOffset[]> {
    const fresh = this.#joining.from === 'earliest' ? BEGINNING : END;
    while (!this.#left && !this.#inner.assignmentLost()) {
      const committed = await this.#brokers.committed(partitions).catch(error => void this.#complained(error));
      if (committed !== undefined) {
        return partitions.map(({ topic, partition }, i) => ({
          topic,
          partition,
          offset: committed[i]!.offset ?? fresh,
        }));
      }
      await new Promise(resolve => setTimeout(resolve, ASK_AGAIN_MS));
    }
    return partitions.map(({ topic, partition }) => ({ topic, partition, offset: fresh }));
  }

  pause({ topic, partition }: TopicPartition): void {
    this.#paused.add(laneIdOf({ topic, partition }));
    this.#quietly(() => this.#inner.pause([{ topic, partition }]));
  }

  resume({ topic, partition }: TopicPartition): void {
    if (!this.#paused.delete(laneIdOf({ topic, partition }))) return;
    this.#quietly(() => this.#inner.resume([{ topic, partition }]));
  }

  // Refused for a partition that has gone a moment ago, of which we shall hear.
  #quietly(act: () => void): void {
    try {
      act();
    } catch {}
  }

  seek({ topic, partition }: TopicPartition, offset: bigint): void {
    this.#positions.hold({ topic, partition }, offset);
    this.#seekHeld({ topic, partition });
  }

  #seekHeld(at: TopicPartition): void {
    const act = async () => {
      const to = this.#positions.heldFor(at);
      if (this.#left || to === undefined) return;
      try {
        await called(done => this.#inner.seek({ ...at, offset: Number(to) }, SEEK_WITHIN_MS, done));
        this.#positions.sought(at);
      } catch {
        // Its leader is not known yet, for example.
        setTimeout(() => this.#seekHeld(at), ASK_AGAIN_MS);
      }
    };
    this.#turns.between(act).catch(() => undefined);
  }

  async commit(offsets: readonly OffsetToCommit[]): Promise<void> {
    if (this.#inner.assignmentLost() || !offsets.every(at => this.#positions.has(at))) {
      throw new Error('these partitions are not ours any more');
    }
    await called(done =>
      this.#inner.commitCb(
        offsets.map(({ topic, partition, offset, metadata }) => ({
          topic,
          partition,
          offset: Number(offset),
          ...(metadata === undefined ? {} : { metadata }),
        })),
        done,
      ),
    );
  }

  /** For a producer, which asks it who we are in the group. */
  get consumer(): ConfluentConsumerLike {
    return this.#consumer;
  }

  inspect(at: TopicPartition): Promise<PartitionState> {
    return this.#brokers.inspect(at);
  }

  async leave(): Promise<void> {
    this.#left = true;
    await this.#reading;
    await this.#brokers.disconnect();
    await this.#consumer.disconnect();
  }
}
