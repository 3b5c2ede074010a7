import { backoffMs } from '../../../../core/backoff.ts';
import { systemClock } from '../../../../ports/clock.ts';
import { type Fetched, laneIdOf, type TopicPartition } from '../../client.ts';
import { isRefused, isUnreadable } from './errors.ts';
import { type FetchedPartition, readable } from './records.ts';
import { byTopic, type MetadataLike, TIMESTAMP, type Wire } from './wire.ts';

/** What whoever reads hears. Called synchronously. */
export interface FetcherEvents {
  fetched(fetch: Fetched): void;
  /** The partitions of each topic, as often as it is looked at. */
  counted(partitions: ReadonlyMap<string, number>): void;
  /** The topic was deleted and made again. */
  recreated(topic: string): void;
  failed(error: unknown): void;
}

export interface FetcherOptions {
  readonly topics: readonly string[];
  readonly from: 'earliest' | 'latest';
  /** The group's next-to-read offset of each partition, in their order; undefined where it has none. */
  committed(partitions: readonly TopicPartition[]): Promise<readonly (bigint | undefined)[]>;
  readonly maxWaitMs: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly maxBytesPerPartition: number;
  readonly readCommitted: boolean;
  readonly metadataMaxAgeMs: number;
}

/** A partition that is read. Another assignment makes another one, so an answer to the earlier one finds nobody. */
interface Reading extends TopicPartition {
  /** The next to be fetched; undefined while it is being asked for. */
  offset: bigint | undefined;
  begins: 'committed' | 'earliest';
  paused: boolean;
  /** Not before the topic was looked at again: its leader has moved, or it is gone. */
  stale: boolean;
  end: bigint | undefined;
}

type KnownTopic = NonNullable<ReturnType<MetadataLike['topics']['get']>>;

const RETRY = { minMs: 100, maxMs: 5_000 };
/** A timer that is set for longer than that fires at once. */
const LOOK_MS = { min: 100, max: 2 ** 31 - 1 };

/** Codes of the protocol. */
const OFFSET_OUT_OF_RANGE = 1;
const TOPIC_AUTHORIZATION_FAILED = 29;
/** From this version on a topic goes by its id in a fetch, and by its name before. */
const FETCH_BY_ID = 13;

/**
 * Fetches partitions, each from its own offset: one request at a time to every broker, with all of its partitions that
 * are not paused. Their stream of messages can neither pause one partition, nor say which offsets a fetch spans, and
 * hands out records of aborted transactions.
 */
export class Fetcher {
  readonly #wire: Wire;
  readonly #options: FetcherOptions;
  readonly #events: FetcherEvents;
  readonly #stopped = new AbortController();
  /** In the order in which they are to be served next, where a response cannot hold all. */
  readonly #readings = new Map<string, Reading>();
  readonly #topics = new Map<string, KnownTopic>();
  readonly #busy = new Set<number>();
  #brokers: MetadataLike['brokers'] = new Map();
  #recovering = false;
  #aged: NodeJS.Timeout | undefined;

  constructor(wire: Wire, options: FetcherOptions, events: FetcherEvents) {
    this.#wire = wire;
    this.#options = options;
    this.#events = events;
  }

  /** Rejects when no broker answers or a topic does not exist. */
  async start(): Promise<void> {
    for (const topic of this.#options.topics) await this.#look(topic, 2);
    this.#lookLater();
  }

  add(partitions: readonly TopicPartition[], begins: Reading['begins'] = 'committed'): void {
    const added = partitions.map(({ topic, partition }): Reading => {
      return { topic, partition, offset: undefined, begins, paused: false, stale: false, end: undefined };
    });
    for (const reading of added) this.#readings.set(laneIdOf(reading), reading);
    void this.#begin(added);
  }

  remove(partitions: readonly TopicPartition[]): void {
    for (const at of partitions) this.#readings.delete(laneIdOf(at));
  }

  pause(at: TopicPartition): void {
    const reading = this.#readings.get(laneIdOf(at));
    if (reading !== undefined) reading.paused = true;
  }

  resume(at: TopicPartition): void {
    const reading = this.#readings.get(laneIdOf(at));
    if (reading === undefined || !reading.paused) return;
    reading.paused = false;
    this.#fetch();
  }

  seek(at: TopicPartition, offset: bigint): void {
    const reading = this.#readings.get(laneIdOf(at));
    if (reading === undefined) return;
    reading.offset = offset;
    this.#fetch();
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    clearTimeout(this.#aged);
    this.#readings.clear();
    await this.#wire.consumer.close(true);
  }

  #isRead(reading: Reading): boolean {
    return this.#readings.get(laneIdOf(reading)) === reading;
  }

  /** Finds out where these begin. */
  async #begin(readings: readonly Reading[]): Promise<void> {
    for (let tries = 1; ; tries++) {
      const open = readings.filter(reading => reading.offset === undefined && this.#isRead(reading));
      if (open.length === 0) break;
      try {
        const committed = open.filter(({ begins }) => begins === 'committed');
        if (committed.length > 0) place(committed, await this.#options.committed(committed));
        // Who has a committed offset by now is not asked for another; neither is who was sent elsewhere meanwhile.
        const rest = open.filter(({ offset }) => offset === undefined);
        const atEnd = rest.filter(({ begins }) => begins === 'committed' && this.#options.from === 'latest');
        const atStart = rest.filter(reading => !atEnd.includes(reading));
        if (atEnd.length > 0) place(atEnd, await this.#wire.offsetsAt(TIMESTAMP.latest, atEnd));
        if (atStart.length > 0) place(atStart, await this.#wire.offsetsAt(TIMESTAMP.earliest, atStart));
      } catch (error) {
        if (isRefused(error)) return this.#events.failed(error);
        await this.#backOff(tries);
      }
    }
    this.#fetch();
  }

  #fetch(): void {
    if (this.#stopped.signal.aborted) return;
    const ready = new Map<number, Reading[]>();
    for (const reading of this.#readings.values()) {
      if (reading.offset === undefined || reading.paused || reading.stale) continue;
      const leader = this.#topics.get(reading.topic)?.partitions[reading.partition]?.leader;
      if (leader === undefined || !this.#brokers.has(leader)) reading.stale = true;
      else if (!this.#busy.has(leader)) ready.set(leader, [...(ready.get(leader) ?? []), reading]);
    }
    for (const [node, readings] of ready) void this.#fetchFrom(node, readings);
    void this.#recover();
  }

  async #fetchFrom(node: number, readings: readonly Reading[]): Promise<void> {
    const asked = new Map(readings.map(reading => [reading, reading.offset!]));
    this.#busy.add(node);
    try {
      this.#take(await this.#request(node, asked), asked);
    } catch (error) {
      // One partition's error makes an error of the whole, which has the others' records all the same.
      const response = (error as { response?: { errorCode?: number; responses?: unknown } }).response;
      if (response?.errorCode === 0 && response.responses !== undefined) this.#take(response as never, asked);
      else if (isRefused(error) || isUnreadable(error)) this.#events.failed(error);
      else for (const reading of readings) reading.stale = true;
    }
    this.#busy.delete(node);
    this.#fetch();
  }

  #request(node: number, asked: ReadonlyMap<Reading, bigint>): Promise<FetchResponse> {
    const { maxWaitMs, minBytes, maxBytes, maxBytesPerPartition, readCommitted } = this.#options;
    return this.#wire.send('Fetch', this.#brokers.get(node), version => [
      maxWaitMs,
      minBytes,
      maxBytes,
      readCommitted ? 1 : 0,
      // No session: everything that is wanted is in the request.
      0,
      -1,
      [...byTopic([...asked.keys()])].map(([topic, ofTopic]) => ({
        topicId: version < FETCH_BY_ID ? topic : this.#topics.get(topic)!.id,
        partitions: ofTopic.map(reading => ({
          partition: reading.partition,
          fetchOffset: asked.get(reading),
          currentLeaderEpoch: -1,
          lastFetchedEpoch: -1,
          partitionMaxBytes: maxBytesPerPartition,
        })),
      })),
      [],
      // No rack: a broker that knows it names another one to fetch from, and gives nothing itself.
      '',
    ]);
  }

  #take(response: FetchResponse, asked: ReadonlyMap<Reading, bigint>): void {
    const names = new Map([...this.#topics].flatMap(([name, { id }]) => [[name, name] as const, [id, name] as const]));
    for (const { topicId, partitions } of response.responses) {
      for (const part of partitions) {
        const reading = this.#readings.get(
          laneIdOf({ topic: names.get(topicId) ?? '', partition: part.partitionIndex }),
        );
        // Taken away, assigned anew or sent elsewhere since it was asked for.
        if (reading === undefined || reading.offset === undefined || asked.get(reading) !== reading.offset) continue;
        this.#takePartition(reading, reading.offset, part);
      }
    }
  }

  #takePartition(reading: Reading, from: bigint, part: FetchedPartition): void {
    if (part.errorCode === TOPIC_AUTHORIZATION_FAILED) {
      this.#events.failed(Object.assign(new Error(`reading ${reading.topic} is not allowed`), REFUSED_TOPIC));
    } else if (part.errorCode === OFFSET_OUT_OF_RANGE) {
      // Also for `latest`, which is about a group that has never committed anything: what is left must not be skipped.
      reading.offset = undefined;
      reading.begins = 'earliest';
      void this.#begin([reading]);
    } else if (part.errorCode !== 0) {
      reading.stale = true;
    } else {
      const end = this.#options.readCommitted ? part.lastStableOffset : part.highWatermark;
      const { records, next } = readable(part, from);
      // A broker that has just become the leader may not know yet how far the log is committed, and names an earlier end.
      if (next === from && (end === reading.end || end < from)) return;
      reading.offset = next;
      reading.end = end;
      this.#readings.delete(laneIdOf(reading));
      this.#readings.set(laneIdOf(reading), reading);
      this.#events.fetched({ topic: reading.topic, partition: reading.partition, from, records, next, end });
    }
  }

  /** Looks at the topics again until nothing is stale. */
  async #recover(): Promise<void> {
    if (this.#recovering) return;
    this.#recovering = true;
    for (let tries = 1; !this.#stopped.signal.aborted; tries++) {
      const stale = new Set([...this.#readings.values()].filter(reading => reading.stale).map(({ topic }) => topic));
      if (stale.size === 0) break;
      await this.#backOff(tries);
      for (const topic of stale) await this.#look(topic, 0).catch(() => undefined);
    }
    this.#recovering = false;
  }

  // One topic at a time, since one that is gone is an error of the whole request.
  async #look(topic: string, retries: number): Promise<void> {
    const { brokers, topics } = await this.#wire.consumer.metadata({ topics: [topic], forceUpdate: true, retries });
    const found = topics.get(topic);
    if (this.#stopped.signal.aborted || found === undefined) return;
    const before = this.#topics.get(topic);
    this.#brokers = brokers;
    this.#topics.set(topic, found);
    for (const reading of this.#readings.values()) if (reading.topic === topic) reading.stale = false;
    if (before !== undefined && before.id !== found.id) this.#events.recreated(topic);
    this.#fetch();
  }

  #lookLater(): void {
    this.#aged = setTimeout(
      async () => {
        for (const topic of this.#options.topics) await this.#look(topic, 0).catch(() => undefined);
        if (this.#stopped.signal.aborted) return;
        this.#events.counted(new Map([...this.#topics].map(([name, { partitionsCount }]) => [name, partitionsCount])));
        this.#lookLater();
      },
      Math.min(Math.max(this.#options.metadataMaxAgeMs, LOOK_MS.min), LOOK_MS.max),
    );
  }

  #backOff(tries: number): Promise<void> {
    return systemClock.sleep(backoffMs(tries, RETRY, Math.random()), this.#stopped.signal);
  }
}

interface FetchResponse {
  readonly responses: readonly { readonly topicId: string; readonly partitions: readonly FetchedPartition[] }[];
}

const REFUSED_TOPIC = { apiId: 'TOPIC_AUTHORIZATION_FAILED' };

function place(readings: readonly Reading[], offsets: readonly (bigint | undefined)[]): void {
  for (const [at, reading] of readings.entries()) reading.offset ??= offsets[at];
}
