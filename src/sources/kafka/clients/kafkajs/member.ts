import { backoffMs } from '../../../../core/backoff.ts';
import type {
  JoinOptions,
  KafkaRecord,
  Member,
  MemberEvents,
  OffsetToCommit,
  PartitionState,
  TopicPartition,
} from '../../client.ts';
import { withoutAborted } from './aborted.ts';
import { bySubscription } from './assigner.ts';
import type {
  KafkaJsAdminLike,
  KafkaJsBatch,
  KafkaJsConsumerLike,
  KafkaJsLike,
  KafkaJsMessage,
  KafkaJsPayload,
} from './client.ts';
import { isRefused, startError } from './errors.ts';

/** One member of the group, over as many consumers of theirs as it takes. */
export class KafkaJsMember implements Member {
  readonly #kafka: KafkaJsLike;
  readonly #settings: Readonly<Record<string, unknown>>;
  readonly #joining: JoinOptions;
  readonly #events: MemberEvents;
  #consumer: KafkaJsConsumerLike | undefined;
  #commitOnce: KafkaJsPayload['commitOffsetsIfNecessary'] | undefined;
  #admin: Promise<KafkaJsAdminLike> | undefined;
  #left = false;
  #crashes = 0;
  #rebuild: NodeJS.Timeout | undefined;

  constructor(
    kafka: KafkaJsLike,
    settings: Readonly<Record<string, unknown>>,
    joining: JoinOptions,
    events: MemberEvents,
  ) {
    this.#kafka = kafka;
    this.#settings = settings;
    this.#joining = joining;
    this.#events = events;
  }

  async start(): Promise<void> {
    const { groupId, topics, from } = this.#joining;
    // A partition that is resumed is noticed when the fetch of the others ends, or this wait where all are paused; the
    // client's default of 5 s would let a fast consumer starve.
    const consumer = this.#kafka.consumer({
      maxWaitTimeInMs: 100,
      partitionAssigners: [bySubscription],
      ...this.#settings,
      groupId,
      retry: this.#retry(),
    });
    this.#consumer = consumer;
    this.#commitOnce = undefined;
    // Of this consumer alone: one that crashed may still say something when its successor is at work.
    const on = (event: string, listener: (payload: any) => void) =>
      consumer.on(event, ({ payload }) => {
        if (this.#consumer === consumer && !this.#left) listener(payload);
        // A restart that was under way when we left would join again, and keep its partitions from everybody. At the next
        // turn, because the client sets the timer of a restart just after it has told of the crash.
        else if (event !== consumer.events.END_BATCH_PROCESS) setImmediate(() => this.#quit(consumer));
      });
    on(consumer.events.GROUP_JOIN, payload => {
      this.#crashes = 0;
      this.#events.assigned(partitionsOf(payload.memberAssignment));
    });
    on(consumer.events.REBALANCING, () => this.#events.lost());
    on(consumer.events.CRASH, payload => this.#crashed(payload.error, payload.restart === true));
    // Of a fetch with nothing to read in it `eachBatch` never hears.
    on(consumer.events.END_BATCH_PROCESS, ({ batchSize, topic, partition, lastOffset, highWatermark }) => {
      if (batchSize > 0) return;
      const next = BigInt(lastOffset) + 1n;
      this.#events.fetched({ topic, partition, from: undefined, records: [], next, end: BigInt(highWatermark) });
    });
    try {
      await consumer.connect();
      if (!this.#left) await consumer.subscribe({ topics: [...topics], fromBeginning: from === 'earliest' });
      if (this.#left) return this.#quit(consumer);
      await consumer.run({
        autoCommit: false,
        eachBatch: async ({ batch, commitOffsetsIfNecessary }: KafkaJsPayload) => {
          if (this.#consumer !== consumer) return;
          this.#commitOnce = commitOffsetsIfNecessary;
          this.#fetched(batch);
        },
      });
    } catch (error) {
      this.#quit(consumer);
      throw startError(error, topics);
    }
    if (this.#left) this.#quit(consumer);
  }

  #quit(consumer: KafkaJsConsumerLike): void {
    consumer.disconnect().catch(() => undefined);
  }

  /** The user's settings, or what the client takes without any; and no restart once we have left. */
  #retry(): object {
    const own = (this.#settings.retry ?? { retries: 5 }) as {
      restartOnFailure?: (e: Error) => Promise<boolean>;
    };
    return {
      ...own,
      restartOnFailure: async (error: Error) => !this.#left && ((await own.restartOnFailure?.(error)) ?? true),
    };
  }

  /** Returns at once: records wait in the lane, so the client goes on fetching and sending heartbeats. */
  #fetched(batch: KafkaJsBatch): void {
    const { topic, partition, messages, highWatermark } = batch;
    const from = batch.fetchedOffset ?? batch.firstOffset() ?? messages[0]?.offset;
    if (from === undefined) return;
    this.#events.fetched({
      topic,
      partition,
      from: BigInt(from),
      records: withoutAborted(messages, batch.rawMessages).map(recordOf),
      next: BigInt(batch.lastOffset()) + 1n,
      end: BigInt(highWatermark),
    });
  }

  #crashed(error: unknown, restarts: boolean): void {
    if (this.#left) return;
    this.#events.lost();
    // A topic that is gone may come back; a right that is missing is somebody's to grant.
    if (isRefused(error)) this.#events.failed(startError(error, this.#joining.topics));
    if (restarts || isRefused(error)) return;
    this.#crashes++;
    const wait = backoffMs(this.#crashes, { minMs: 500, maxMs: 30_000 }, Math.random());
    this.#rebuild = setTimeout(() => {
      this.start().catch(failure => this.#crashed(failure, false));
    }, wait);
  }

  pause({ topic, partition }: TopicPartition): void {
    this.#quietly(consumer => consumer.pause([{ topic, partitions: [partition] }]));
  }

  resume({ topic, partition }: TopicPartition): void {
    this.#quietly(consumer => consumer.resume([{ topic, partitions: [partition] }]));
  }

  seek({ topic, partition }: TopicPartition, offset: bigint): void {
    this.#quietly(consumer => consumer.seek({ topic, partition, offset: String(offset) }));
  }

  // Between a crash and the restart the client refuses all of these, and the next assignment starts afresh anyway.
  #quietly(act: (consumer: KafkaJsConsumerLike) => void): void {
    try {
      if (this.#consumer !== undefined) act(this.#consumer);
    } catch {}
  }

  async commit(offsets: readonly OffsetToCommit[]): Promise<void> {
    // Not `consumer.commitOffsets`: that tries again by itself, and so sends under the next generation what was refused
    // under the last one: a member that slept past its session would put back the offsets of whoever took over.
    if (this.#commitOnce === undefined) throw new Error('nothing was fetched yet, so there is nothing to commit');
    const byTopic = Map.groupBy(offsets, ({ topic }) => topic);
    await this.#commitOnce({
      topics: [...byTopic].map(([topic, ofTopic]) => ({
        topic,
        partitions: ofTopic.map(({ partition, offset, metadata = null }) => ({
          partition,
          offset: String(offset),
          metadata,
        })),
      })),
    });
  }

  async inspect({ topic, partition }: TopicPartition): Promise<PartitionState> {
    this.#admin ??= connected(this.#kafka.admin()).catch(error => {
      this.#admin = undefined;
      throw error;
    });
    const admin = await this.#admin;
    const [{ clusterId }, bounds, groups] = await Promise.all([
      admin.describeCluster(),
      admin.fetchTopicOffsets(topic),
      admin.fetchOffsets({ groupId: this.#joining.groupId, topics: [topic] }),
    ]);
    const log = bounds.find(at => at.partition === partition);
    if (log === undefined) throw new Error(`the broker does not know partition ${partition} of ${topic}`);
    const committed = groups[0]?.partitions.find(at => at.partition === partition);
    return {
      clusterId,
      topicId: undefined,
      earliest: BigInt(log.low),
      end: BigInt(log.high),
      partitions: bounds.length,
      committed:
        committed === undefined || committed.offset === '-1'
          ? undefined
          : { offset: BigInt(committed.offset), metadata: committed.metadata },
    };
  }

  async leave(): Promise<void> {
    this.#left = true;
    clearTimeout(this.#rebuild);
    const admin = this.#admin;
    await Promise.all([this.#consumer?.disconnect(), admin?.then(connection => connection.disconnect())]);
  }
}

async function connected(admin: KafkaJsAdminLike): Promise<KafkaJsAdminLike> {
  await admin.connect();
  return admin;
}

function partitionsOf(assignment: Readonly<Record<string, readonly number[]>>): TopicPartition[] {
  return Object.entries(assignment).flatMap(([topic, partitions]) =>
    partitions.map(partition => ({ topic, partition })),
  );
}

function recordOf({ offset, key, value, timestamp, headers, batchContext }: KafkaJsMessage): KafkaRecord {
  const timestampMs = Number(timestamp);
  return {
    leaderEpoch: batchContext?.partitionLeaderEpoch,
    offset: BigInt(offset),
    key,
    value,
    timestampMs: timestampMs >= 0 ? timestampMs : undefined,
    headers,
  };
}
